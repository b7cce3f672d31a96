"""What the script logs elsewhere, heard on the way: TensorBoard, wandb, MLflow and trackio become metrics of the run.

Only what the script has imported itself is patched; nothing is imported on our initiative.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from traindx.probes.hear import foreign_optimizers
from traindx.probes.hear.forward_backward import around

if TYPE_CHECKING:
    from traindx.probes.drive.patches import Patches

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
MOST = 200  # names in one call: beyond that it is no list of metrics

# words of a name that say what it was measured on, whatever the loop is doing at the moment
_PHASES = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "eval": "val", "dev": "val",
    "test": "test",
}  # fmt: skip
# counters and clocks are logged next to the metrics and measure nothing
_COUNTERS = {"epoch", "epochs", "step", "steps", "iteration", "iter", "time", "runtime", "second", "seconds", "timestamp"}
_WORDS = re.compile(r"[A-Za-z]+")


def install(patches: Patches) -> None:
    """Patch the trackers that are imported by now and not patched yet; optimizers of frameworks also when they come later."""
    if ("foreign", "") not in patches.tapped:
        patches.tapped.add(("foreign", ""))
        foreign_optimizers.install(patches)
    for module, path, name, heard in _POINTS:
        owner: Any = sys.modules.get(module)
        for part in path.split(".") if path else ():
            owner = getattr(owner, part, None)
        point = (f"{module}.{path}", name)
        if owner is None or point in patches.tapped or not callable(getattr(owner, name, None)):
            continue
        patches.tapped.add(point)
        patches.replace(owner, name, partial(around, after=partial(heard, patches, int(bool(path)))))


def _one(patches: Patches, skip: int, out: Any, args: Args, kwargs: Kwargs) -> None:
    """`add_scalar(tag, value, …)`, `log_metric(key, value, …)`"""
    name = _given(args[skip:], kwargs, 0, "tag", "key")
    _tell(patches, {name: _given(args[skip:], kwargs, 1, "scalar_value", "value")})


def _many(patches: Patches, skip: int, out: Any, args: Args, kwargs: Kwargs) -> None:
    """`log({name: value, …}, …)`"""
    metrics = _given(args[skip:], kwargs, 0, "data", "metrics", "values")
    if isinstance(metrics, Mapping):
        _tell(patches, metrics)


def _given(args: Args, kwargs: Kwargs, position: int, *names: str) -> Any:
    return args[position] if len(args) > position else next((kwargs[n] for n in names if n in kwargs), None)


def _tell(patches: Patches, metrics: Mapping[Any, Any]) -> None:
    for name, value in list(metrics.items())[:MOST]:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(name, str) and (number or _scalar(value)):
            words = [w.lower() for w in _WORDS.findall(name)]
            if not words or words[-1] in _COUNTERS:
                continue
            phase = next((_PHASES[w] for w in words if w in _PHASES), None)
            patches.report("on_metric", name if phase is None else f"metric/{phase}/{name}", value)


def _scalar(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.number)


# module, path to the owner inside it, name, who listens; `wandb.log` is set anew by `wandb.init`, so the class counts, too
_POINTS: tuple[tuple[str, str, str, Callable[..., None]], ...] = (
    ("torch.utils.tensorboard.writer", "SummaryWriter", "add_scalar", _one),
    ("tensorboardX.writer", "SummaryWriter", "add_scalar", _one),
    ("wandb", "Run", "log", _many),
    ("wandb", "", "log", _many),
    ("mlflow", "", "log_metric", _one),
    ("mlflow", "", "log_metrics", _many),
    ("trackio", "", "log", _many),
    ("accelerate", "Accelerator", "log", _many),
)
