"""Optimizers that are none of torch's: fastai and Keras bring their own, and torch's hooks never hear of their steps.

Their classes are patched when the program has imported them; the recorder gets a stand-in with parameters and rate.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from traindx.probes.hear.forward_backward import around
from traindx.probes.hear.imported import when_imported

if TYPE_CHECKING:
    from traindx.probes.drive.patches import Patches

Groups = Callable[[Any, tuple[Any, ...], dict[str, Any]], list[dict[str, Any]]]


class StandIn:
    """What the recorder asks of an optimizer; its class bears the name of the real one."""

    def __init__(self) -> None:
        self.groups: list[dict[str, Any]] = []

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Parameters that are still alive, with their rate."""
        return [{**g, "params": [p for r in g["params"] if (p := r()) is not None]} for g in self.groups]

    @property
    def state(self) -> dict[Any, dict[str, Any]]:
        """There is one, but it is not read: it is kept differently in every framework."""
        return {p: {} for g in self.param_groups for p in g["params"]}


_standing: weakref.WeakKeyDictionary[Any, StandIn] = weakref.WeakKeyDictionary()


def _stand_in(real: Any) -> StandIn:
    found = _standing.get(real)
    if found is None:
        found = _standing[real] = type(type(real).__name__, (StandIn,), {})()
    return found


def install(patches: Patches) -> None:
    """Patch the foreign optimizers that are imported, now or later."""
    for module, owner, method, groups in _POINTS:
        patches.on_undo(when_imported(module, partial(_tap, patches, module, owner, method, groups)))


def _tap(patches: Patches, module: str, owner: str, method: str, groups: Groups) -> None:
    kind = getattr(sys.modules[module], owner, None)
    point = (f"{module}.{owner}", method)
    if kind is None or point in patches.tapped or not patches.observers:
        return
    patches.tapped.add(point)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stand_in = _stand_in(args[0])
        stand_in.groups = groups(args[0], args[1:], kwargs)
        patches.report("step_begins", stand_in, False)

    def after(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        patches.report("step_ends", _stand_in(args[0]))

    patches.replace(kind, method, partial(around, before=_safely(before), after=_safely(after)))


def _safely(report: Callable[..., None]) -> Callable[..., None]:
    """A framework that looks different from the one we know must not suffer for it: then its steps stay unseen."""

    def told(*args: Any) -> None:
        try:
            report(*args)
        except (AttributeError, TypeError, KeyError, IndexError, ValueError):
            return

    return told


def _fastai(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"params": [weakref.ref(p) for p in params], "lr": float(hyper["lr"]), "weight_decay": float(hyper.get("wd") or 0.0)}
        for params, hyper in zip(optimizer.param_lists, optimizer.hypers)
    ]


def _keras(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    variables = (args[1] if len(args) > 1 else kwargs.get("trainable_variables")) or optimizer._trainable_variables
    params = [v.value for v in variables]
    rate = optimizer.learning_rate
    rate = getattr(rate, "value", rate)
    lr = float(rate.detach()) if isinstance(rate, Tensor) else float(rate)
    return [{"params": [weakref.ref(p) for p in params], "lr": lr}]


_POINTS: tuple[tuple[str, str, str, Groups], ...] = (
    ("fastai.optimizer", "Optimizer", "step", _fastai),
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "apply", _keras),
)
