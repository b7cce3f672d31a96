"""Lightning: `Trainer(callbacks=[Traindx()])`, from `lightning` or `pytorch_lightning`; or no code at all, with TRAINDX=1."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any, Unpack

from traindx.errors import EnvironmentFault
from traindx.integrations.fit import Fit, Options, look_away

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _bases() -> tuple[Any, ...]:
    """The Callback of whichever package the program uses; of the first that is installed when it has not said yet."""
    used = [sys.modules[name] for name in PACKAGES if name in sys.modules]
    for name in PACKAGES if not used else ():
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            used = [importlib.import_module(name)]
            break
    if not used:
        raise EnvironmentFault("this needs Lightning: pip install lightning (or pytorch-lightning)")
    return tuple(package.Callback for package in used)


_Callback: Any = type("_Callback", _bases(), {})


class Traindx(_Callback, Fit):
    """Observes `Trainer.fit`; afterwards `.diagnosis` has the result. Takes the options of `traindx.watch`."""

    def __init__(self, **options: Unpack[Options]) -> None:
        Fit.__init__(self, **options)
        self._validation: Any = None
        self._before: set[str] = set()  # what was logged before the validation under way
        self._own: set[str] = set()  # what is logged by validations

    def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
        look_away(True)  # `traindx run` sees these two batches, too, and they are no evaluation of the run

    def on_sanity_check_end(self, trainer: Any, pl_module: Any) -> None:
        look_away(False)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        # here the sanity check is over: two batches of it are no evaluation of the run
        if trainer.is_global_zero or "RANK" in os.environ:  # without RANK every process would call itself the first
            self.begin(pl_module, *trainer.optimizers)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self.dx is not None:
            self._before = set(trainer.callback_metrics)
            self._validation = self.dx.validation()
            self._validation.__enter__()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._validation is not None:
            self._validation.__exit__(None, None, None)
            self._validation = None
            self._own |= set(trainer.callback_metrics) - self._before
            self.tell("val", {k: v for k, v in trainer.callback_metrics.items() if k in self._own})

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.tell("train", {k: v for k, v in trainer.callback_metrics.items() if k not in self._own})

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        look_away(False)
        self.close(exception)
