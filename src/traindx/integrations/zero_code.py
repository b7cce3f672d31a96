"""Under `traindx run` the callbacks attach themselves: each framework gets ours when the program has imported it."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from traindx.probes.hear.imported import when_imported


def arm() -> Callable[[], None]:
    """Wait for the frameworks; call what it gives to wait no longer. Lightning asks by itself, through its entry point."""
    offs = [when_imported(module, functools.partial(_safely, add)) for module, add in _ARRIVALS.items()]

    def disarm() -> None:
        for off in offs:
            off()

    return disarm


def _safely(add: Callable[[], None]) -> None:
    """A framework that looks different from the one we know is observed without its callback: torch's own hooks see most."""
    try:
        add()
    except Exception as why:  # the program must never notice; the reason is shown to whoever asks for it
        troubles.append(f"{type(why).__name__}: {why}")


troubles: list[str] = []  # what could not be attached, and why


def _ours(name: str) -> Any:
    return importlib.import_module(f"traindx.integrations.{name}").Traindx


def _instead(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put `make(original)` in the place of `owner.name` until the last observer leaves, like every other patch."""
    from traindx.probes.drive.patches import PATCHES  # with torch, which the framework has imported

    PATCHES.replace(owner, name, make)


def _transformers() -> None:
    from traindx.probes.drive.patches import PATCHES

    callbacks, own = sys.modules["transformers.trainer"].DEFAULT_CALLBACKS, _ours("huggingface")
    callbacks.append(own)
    PATCHES.on_undo(lambda: callbacks.remove(own) if own in callbacks else None)


def _fastai() -> None:
    def make(made: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            made(self, *args, **kwargs)
            self.add_cb(_ours("fastai")())

        return init

    _instead(sys.modules["fastai.learner"].Learner, "__init__", make)


def _keras() -> None:
    def make(fit: Any) -> Any:
        def fitted(self: Any, *args: Any, callbacks: Any = None, **kwargs: Any) -> Any:
            given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks] if callbacks is not None else []
            try:
                return fit(self, *args, callbacks=[*given, _ours("keras")()], **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # without this frame of ours
                raise

        return fitted

    _instead(sys.modules["keras.src.backend.torch.trainer"].TorchTrainer, "fit", make)


def _skorch() -> None:
    def make(given: Any) -> Any:
        def defaults(self: Any) -> list[Any]:
            return [*given(self), ("traindx", _ours("skorch")())]

        return defaults

    _instead(sys.modules["skorch.net"].NeuralNet, "get_default_callbacks", make)


def _ignite() -> None:
    """Engines that run inside another validate, and their metrics are those of validation."""
    fit_kind = importlib.import_module("traindx.integrations.fit").Fit
    open_: list[Any] = []

    def make(run: Any) -> Any:
        def ran(self: Any, *args: Any, **kwargs: Any) -> Any:
            outermost = not open_
            if outermost:
                open_.append(fit_kind())
                open_[0].begin()
            inner = open_[0].dx is not None and not outermost
            try:
                with open_[0].dx.validation() if inner else contextlib.nullcontext():
                    out = run(self, *args, **kwargs)
                open_[0].tell("train" if outermost else "val", self.state.metrics)
                return out
            except BaseException as error:
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # as above
                raise
            finally:
                if outermost:
                    open_.pop().close()

        return ran

    _instead(sys.modules["ignite.engine.engine"].Engine, "run", make)


_ARRIVALS: dict[str, Callable[[], None]] = {
    "transformers.trainer": _transformers,
    "fastai.learner": _fastai,
    "keras.src.backend.torch.trainer": _keras,
    "skorch.net": _skorch,
    "ignite.engine.engine": _ignite,
}
