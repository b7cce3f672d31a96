"""Base-pipeline evaluation: what does the model that training started from say on the same pipeline? (CATALOGUE T24)"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traindx.errors import UsageError
from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.loss_at_init import _expected
from traindx.trials.task import Batch, Task, Twin

CLEAR = 3.0  # standard errors of the paired difference
CHANCE = 0.9  # of the loss of guessing: a base that is no better knows nothing of this pipeline


@trial("base-eval", steps=20, most=lambda t: (2 + len(t.between)) * t.batches, wants="val")
@dataclass(frozen=True)
class BaseEval:
    """Is the fine-tuned model better than the one it started from, on the same validation pipeline?

    A base that only guesses here points at the pipeline (template, tokenizer, label order), not at training. A model worse than
    its base, that recovers on the way back to it, has drifted and forgotten. Give the base as `Task(…, base=model or state_dict)`;
    adapters that can be switched off need nothing.
    """

    batches: int = 4
    between: tuple[float, ...] = (0.25, 0.5, 0.75)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Loss of the same batches under the model, its base, and on the way between them."""
        probe = task.probes(self.batches)
        if not probe:
            raise UsageError("the task has no data to evaluate on")
        with task.twin() as twin:
            now = _each(twin, probe)
            progress(1, 2 + len(self.between), "the model as it is")
            chance, name = _expected(twin, probe)
            if hasattr(twin.model, "disable_adapter"):
                with twin.model.disable_adapter():
                    base, path = _each(twin, probe), {}
            elif task.base is not None:
                start, end = _weights(task.base), {k: v.clone() for k, v in twin.model.state_dict().items()}
                base = _at(twin, start, end, 0.0, probe)
                path = {a: float(_at(twin, start, end, a, probe).mean()) for a in self.between}
            else:
                why = (
                    "there is no base to compare with: give Task(…, base=…), the model or state_dict that training started from"
                )
                return Result("base-eval", "refused", {"blind": True}, why)
        return self._judged(now, base, path, chance, name)

    def _judged(self, now: np.ndarray, base: np.ndarray, path: dict[float, float], chance: float | None, name: str) -> Result:
        d = base - now
        error = float(d.std(ddof=1)) / math.sqrt(len(d)) if len(d) > 1 else math.inf
        z = float(d.mean()) / max(error, 1e-12)
        answer: dict[str, Any] = {
            "now": float(now.mean()), "base": float(base.mean()), "z": z, "chance": chance,
            "between": {f"{a:g}": v for a, v in path.items()},
        }  # fmt: skip
        line = [float(base.mean()), *path.values(), float(now.mean())]
        run = Run.of({"trial/alpha": [0.0, *path, 1.0], "trial/loss": line}, kind="trial")
        steps = (2 + len(path)) * len(now)
        said = f"base {base.mean():.4g}, now {now.mean():.4g}"
        if chance is not None and name.startswith("ln") and base.mean() > CHANCE * chance and not z > CLEAR:
            why = f"{said}: the base only guesses ({name} is {chance:.3g}), so look at the pipeline before the training"
            return Result("base-eval", "fail", answer, why, run, steps)
        if z > CLEAR:
            return Result("base-eval", "pass", answer, f"{said}: better than where it started", run, steps)
        if z < -CLEAR:
            best = min(path, key=path.__getitem__, default=None)
            back = best is not None and path[best] < float(now.mean()) - abs(float(d.mean())) / 2
            drift = f"; {best:.0%} of the way brings it back: it drifted and forgot" if back else ""
            return Result("base-eval", "fail", answer, f"{said}: worse than where it started{drift}", run, steps)
        return Result("base-eval", "undecided", answer, f"{said}: no clear difference", run, steps)


def _each(twin: Twin, batches: list[Batch]) -> np.ndarray:
    return np.array([twin.probe([b]) for b in batches])


def _weights(base: Any) -> Mapping[str, Tensor]:
    found = base.state_dict() if isinstance(base, nn.Module) else base
    if not isinstance(found, Mapping):
        raise UsageError(f"a base is a model or a state_dict, not {type(base).__name__}")
    return found


def _at(twin: Twin, start: Mapping[str, Tensor], end: Mapping[str, Tensor], share: float, batches: list[Batch]) -> np.ndarray:
    with _between(twin.model, start, end, share):
        return _each(twin, batches)


@contextmanager
def _between(model: nn.Module, start: Mapping[str, Tensor], end: Mapping[str, Tensor], share: float) -> Iterator[None]:
    """The model on the way from its base (0) to itself (1); what the base does not have stays as it is."""
    mixed = {
        k: torch.lerp(start[k].to(v), v, share) if k in start and start[k].shape == v.shape and v.is_floating_point() else v
        for k, v in end.items()
    }
    model.load_state_dict(mixed)
    try:
        yield
    finally:
        model.load_state_dict(end)
