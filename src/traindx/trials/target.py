"""Where a task comes from: `file.py:factory` or `pkg.mod:factory`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from traindx.errors import UsageError
from traindx.trials.frameworks import from_lightning, from_trainer, is_lightning, is_trainer
from traindx.trials.task import Task


def task_from(target: str) -> Task:
    """The Task that a factory makes; the factory's file is executed, as you."""
    place, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"a target is file.py:factory or pkg.mod:factory, for example train.py:make_task; got {target!r}")
    module = _file(Path(place)) if place.endswith(".py") else _module(place)
    factory = getattr(module, name, None)
    if factory is None:
        there = ", ".join(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))[:200]
        raise UsageError(f"{place} has no '{name}'; it has {there or 'no functions'}")
    made: Any = factory() if callable(factory) and not isinstance(factory, Task) else factory
    if is_trainer(made):
        return from_trainer(made)
    module, *loaders = made if isinstance(made, tuple) and made else (made,)
    if is_lightning(module) and len(loaders) < 3:
        return from_lightning(module, *loaders)
    if not isinstance(made, Task):
        raise UsageError(
            f"{target} gave a {type(made).__name__}; a factory returns traindx.Task(model, loss_fn, train, …), a LightningModule or a Trainer"
        )
    return made


def _file(path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    name = f"traindx_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _importing_from(path.parent):
        spec.loader.exec_module(module)
    return module


def _module(name: str) -> Any:
    try:
        with _importing_from(Path()):
            return importlib.import_module(name)
    except ModuleNotFoundError as why:
        raise UsageError(f"cannot import {name}: {why}") from None


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """The program you name may import what lies next to it."""
    place = str(folder.resolve())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
