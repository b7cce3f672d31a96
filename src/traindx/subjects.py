"""What a condition is about, where that need not be there: who did not meet its subject has not looked.

A rule that names a subject is *blind* on a run without it instead of *clear*.
"""

from __future__ import annotations

from collections.abc import Callable

from traindx import facts, outline
from traindx.run import Run


def _evaluation(run: Run) -> bool:
    """Somebody evaluated: a validation curve, a measure of an evaluation, or data that came by in one."""
    seen = any(len(s) for name, s in run.signals.items() if name.startswith("eval/") or name.endswith("/val"))
    told = any(value for key, value in run.facts.items() if key.startswith(("eval.", "data.val_")))
    told = told or bool({"data.shared", "data.token_shift"} & set(run.facts))  # training compared with it
    return seen or told or bool(run.matching("metric/val/*")) or bool(run.events_of("eval_dropout"))


def _met(*names: str) -> Callable[[Run], bool]:
    """Any of these signals, facts or events is there, and holds something."""

    def there(run: Run) -> bool:
        return any(bool(run.fact(n)) or bool(run.events_of(n)) or (n in run and len(run[n]) > 0) for n in names)

    return there


SUBJECTS: dict[str, tuple[Callable[[Run], bool], str]] = {
    "evaluation": (_evaluation, "no evaluation was seen"),
    "batch-norm": (
        lambda run: facts.has_layer(run, "BatchNorm") or _met("bn_mean_gap/module", "model.batchnorm_momentum")(run),
        "no BatchNorm layer was seen",
    ),
    "half-precision": (
        lambda run: bool(outline.low_precision(run)) or _met("amp.scaler", "amp/scale", "origin", "trial.underflow")(run),
        "the run computes in float32 throughout",
    ),
    "experts": (_met("expert_load/expert", "model.never_called"), "no router or experts were seen"),
    "load": (
        _met("load", "resume", "weights_back", "model.loaded", "resume.left", "trial.resume"),
        "nothing was loaded and nothing resumed",
    ),
    "checkpoint": (
        lambda run: "checkpoint.missing" in run.facts or bool(run.events_of("checkpoint")),
        "no checkpoint was written",
    ),
    "schedule": (
        lambda run: (
            _met("schedule.name", "schedule.count", "schedule.before_optimizer", "scheduler_order")(run)
            or bool((run.series("loop/scheduler_steps").finite().values > 0).any())
        ),
        "no schedule was seen",
    ),
    "clipping": (
        _met("clip/norm", "clip_before_unscale", "clip_after_step", "clip_value", "clip_nonfinite"),
        "no gradient was clipped",
    ),
}  # fmt: skip


def missing(subject: str, run: Run) -> str:
    """Why a rule about this subject had nothing to look at; empty when it had, or is about training itself."""
    if not subject:
        return ""
    there, said = SUBJECTS[subject]
    return "" if there(run) else said
