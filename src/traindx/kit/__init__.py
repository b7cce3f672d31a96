"""Single tools for people who want one piece: a table of gradients, a batch check, a schedule, seeds that can be undone.

    from traindx import kit

    print(kit.gradient_table(model))            # after backward()
    with kit.nan_hooks(model):                  # raises where the first NaN is made
        loss = loss_fn(model(x), y)

Each is a function of its own over the same core as the rest of traindx; whatever it changes, it gives back. Coming from a
lesson on debugging, find each of its listings by name in docs/lessons.md, or ask `traindx explain "learning rate finder"`.
"""

from __future__ import annotations

from traindx.kit.batches import validate_batch
from traindx.kit.experiments import (
    check_determinism,
    clip_threshold,
    lr_finder,
    overfit_one_batch,
    plot_lr_finder,
    sharpness,
    two_example_check,
)
from traindx.kit.gradients import (
    Clipped,
    GradientFlow,
    GradientRow,
    GradientTable,
    clip_and_log,
    gradient_statistics,
    gradient_table,
)
from traindx.kit.logger import TrainingLogger
from traindx.kit.nonfinite import check_loss, find_nonfinite, nan_hooks
from traindx.kit.ranks import log_per_rank, ranks_differ
from traindx.kit.schedules import cyclical, one_cycle, warm_restarts, warmup_cosine
from traindx.kit.seeds import Price, Seeds, seed_everything, seed_worker, seeded
from traindx.trials.task import Task, evaluating, training

__all__ = [
    "Clipped",
    "GradientFlow",
    "GradientRow",
    "GradientTable",
    "Price",
    "Seeds",
    "Task",
    "TrainingLogger",
    "check_determinism",
    "check_loss",
    "clip_and_log",
    "clip_threshold",
    "cyclical",
    "evaluating",
    "find_nonfinite",
    "gradient_statistics",
    "gradient_table",
    "log_per_rank",
    "lr_finder",
    "nan_hooks",
    "one_cycle",
    "overfit_one_batch",
    "plot_lr_finder",
    "ranks_differ",
    "seed_everything",
    "seed_worker",
    "seeded",
    "sharpness",
    "training",
    "two_example_check",
    "validate_batch",
    "warm_restarts",
    "warmup_cosine",
]
