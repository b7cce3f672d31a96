"""A Task from what a framework's users have: a LightningModule with its loaders, or a Trainer of transformers.

Told by their methods, so that neither framework is needed here: `training_step` and `configure_optimizers`, or `compute_loss` and
`get_train_dataloader`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from traindx.errors import UsageError
from traindx.trials.task import Batch, Task


def is_lightning(thing: Any) -> bool:
    """Whether a thing trains like a LightningModule."""
    return isinstance(thing, nn.Module) and callable(getattr(thing, "training_step", None))


def is_trainer(thing: Any) -> bool:
    """Whether a thing is like a Trainer of transformers."""
    return callable(getattr(thing, "compute_loss", None)) and callable(getattr(thing, "get_train_dataloader", None))


def from_lightning(module: nn.Module, train: Any = None, val: Any = None) -> Task:
    """The task of a LightningModule; loaders of its own are used where none are given."""
    train = train if train is not None else _loader(module, "train_dataloader")
    val = val if val is not None else _loader(module, "val_dataloader")
    if train is None:
        raise UsageError("the LightningModule has no train_dataloader; give one: from_lightning(module, train_loader)")
    optimizer, scheduler = _optimizers(module)
    return Task(module, None, train, val, optimizer, scheduler, loss=_lightning_loss, name=type(module).__name__)


def from_trainer(trainer: Any) -> Task:
    """The task of a Trainer of transformers, with its own loss, loaders and optimizer."""
    val = trainer.get_eval_dataloader() if getattr(trainer, "eval_dataset", None) is not None else None
    optimizer = getattr(trainer, "optimizer", None) or trainer.create_optimizer()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        found: Tensor = trainer.compute_loss(model, dict(batch))
        return found

    return Task(
        trainer.model, None, trainer.get_train_dataloader(), val, optimizer, loss=loss, name=type(trainer.model).__name__
    )


def _lightning_loss(model: nn.Module, batch: Batch) -> Tensor:
    """`training_step` outside of a trainer: what it logs goes nowhere."""
    kept = {name: vars(model).get(name) for name in ("log", "log_dict")}
    for name in kept:
        object.__setattr__(model, name, lambda *args, **kwargs: None)
    try:
        step: Any = model.training_step
        found = step(batch, 0) if len(inspect.signature(step).parameters) > 1 else step(batch)
    finally:
        for name, own in kept.items():
            if own is None:
                object.__delattr__(model, name)
            else:
                object.__setattr__(model, name, own)
    loss = found.get("loss") if isinstance(found, Mapping) else found
    if not isinstance(loss, Tensor):
        raise UsageError(
            f"training_step gave {type(found).__name__}, no loss: manual optimization cannot be tried from outside"
        )
    return loss


def _loader(module: nn.Module, name: str) -> Any:
    """What the module's own method gives, the first of several loaders; the base class has the method too and raises."""
    try:
        found = getattr(module, name)() if hasattr(module, name) else None
    except Exception:  # the framework's way to say that there is none
        return None
    if isinstance(found, list | tuple):
        return found[0] if found else None
    return found


def _optimizers(module: nn.Module) -> tuple[Any, Any]:
    """The first optimizer and schedule of any of the shapes that `configure_optimizers` may give."""
    made = module.configure_optimizers() if callable(getattr(module, "configure_optimizers", None)) else None
    if isinstance(made, Mapping):
        scheduler = made.get("lr_scheduler")
        return made["optimizer"], scheduler.get("scheduler") if isinstance(scheduler, Mapping) else scheduler
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], list):
        first = made[1][0] if made[1] else None
        return made[0][0], first.get("scheduler") if isinstance(first, Mapping) else first
    if isinstance(made, list | tuple):
        return _first(made[0])
    return made, None


def _first(thing: Any) -> tuple[Any, Any]:
    return (thing["optimizer"], None) if isinstance(thing, Mapping) else (thing, None)
