"""Loss at initialisation: is the first loss what theory says it must be?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.floors import class_axis
from traindx.trials.task import Batch, Task, Twin, apply, evaluating, rebuilt, split

WARN, BAD = 1.0, 3.0  # nats above ln C: logits of standard deviation 1.4 and 2.4 (CATALOGUE LOSS010)


@trial("loss-at-init", steps=15, most=lambda t: 3 * t.batches)
@dataclass(frozen=True)
class LossAtInit:
    """Is the loss of the untrained model what its kind must give: ln C, ln 2, the mean square of the targets?

    The model is measured as it is given. Where it was trained already, `fresh` draws new weights for the twin first.
    """

    batches: int = 5
    fresh: bool = False  # draw new weights before measuring

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Measure the loss on real, zeroed and standardised inputs."""
        batches = task.batches(self.batches)
        with task.twin() as twin:
            if self.fresh:
                fresh(twin.model)
            expected, name = _expected(twin, batches)
            seen = {"real": twin.probe(batches)}
            for kind, change in (("zero", _zeroed), ("standardised", _standardised)):
                progress(len(seen), 3, f"{kind} inputs")
                changed = [_on_inputs(b, change) for b in batches]
                seen[kind] = twin.probe(changed)
        answer = {
            "loss": seen["real"],
            "expected": expected,
            "expected_name": name,
            **{f"{k}_inputs": v for k, v in seen.items()},
        }
        run = Run.of({"trial/loss": list(seen.values())}, kind="trial")
        result, said = _judged(seen, expected, name, answer, self.fresh)
        said = f"with re-initialised weights: {said}" if self.fresh else said
        return Result("loss-at-init", result, answer, said, run, 3 * len(batches))


def fresh(model: nn.Module) -> None:
    """Every module that can be re-initialised is."""
    for module in model.modules():
        reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
        if callable(reset):
            reset()


def _expected(twin: Twin, batches: list[Batch]) -> tuple[float | None, str]:
    targets = [split(b)[1] for b in batches]
    if not targets or not all(isinstance(t, Tensor) for t in targets):
        return None, "unknown"
    with evaluating(twin.model):
        try:
            output = twin.task.output_of(twin.model, batches[0])
        except Exception:  # models that take more than their inputs are judged by nothing here
            return None, "unknown"
    if not isinstance(output, Tensor):
        return None, "unknown"
    kind = type(twin.task.loss_fn).__name__.upper()
    if not targets[0].is_floating_point() and (not twin.task.captured or "CROSSENTROPY" in kind or "NLL" in kind):
        axis = class_axis(output, targets[0])
        if axis is not None and output.shape[axis] > 1:
            return math.log(output.shape[axis]), f"ln {output.shape[axis]}"
    every = torch.cat([t.reshape(-1).float() for t in targets])
    if bool(((every == 0) | (every == 1)).all()) and "BCE" in kind:
        return math.log(2), "ln 2"
    if "MSE" in kind:
        return float(every.var(unbiased=False) + every.mean() ** 2), "mean square of the targets"
    return None, "unknown"


def _judged(seen: dict[str, float], expected: float | None, name: str, answer: dict[str, Any], anew: bool) -> tuple[str, str]:
    real = seen["real"]
    if not math.isfinite(real):
        return "fail", "the loss is not finite before any update"
    if expected is None:
        return "undecided", f"loss {real:.4g}; what it should be is not known for this loss"
    if name.startswith("ln"):
        excess = real - expected
        answer["logit_std"] = math.sqrt(2 * excess) if excess > 0 else 0.0
        if excess > WARN:
            hint = " normalised inputs would bring it back" if seen["standardised"] - expected < excess / 2 else ""
            return (
                "fail",
                f"loss {real:.3g} is {excess:.2g} nats above {name} = {expected:.3g}: wildly confident before learning.{hint}",
            )
        if real < 0.8 * expected:
            return (
                "fail" if anew else "undecided",  # weights that were loaded may know already
                f"loss {real:.3g} is far below {name} = {expected:.3g}: a leak, a wrong class count, or weights that "
                f"already know",
            )
        return "pass", f"loss {real:.3g}, {name} is {expected:.3g}"
    ratio = real / expected if expected > 0 else math.inf
    answer["ratio"] = ratio
    if 0.3 < ratio < 5:
        return "pass", f"loss {real:.3g}, {name} {expected:.3g}"
    return "fail", f"loss {real:.3g} is {ratio:.2g} times the {name} ({expected:.3g})"


def _on_inputs(batch: Batch, change: object) -> Batch:
    inputs, target = split(batch)
    return rebuilt(batch, apply(change, inputs), target)  # type: ignore[arg-type]


def _zeroed(t: Tensor) -> Tensor:
    return torch.zeros_like(t) if t.is_floating_point() else t


def _standardised(t: Tensor) -> Tensor:
    return (t - t.mean()) / t.std().clamp(min=1e-6) if t.is_floating_point() and t.numel() > 1 else t
