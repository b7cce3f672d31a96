"""What happened since the last update: counts, seconds and losses, and the row they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Micro:
    """One backward: where it was called, its loss, what that loss was divided by, and whether a loss call of torch gave it."""

    site: str
    value: Any  # float on CPU, tensor elsewhere
    parts: float  # what it was divided by
    call: str  # site of the loss call when the root is nothing but that call's output, else ""


@dataclass(slots=True)
class Step:
    """Counts and seconds between two updates of the primary optimizer."""

    forwards: int = 0
    backwards: int = 0
    zero_grads: int = 0
    scheduler_steps: int = 0
    clips: int = 0
    stale: int = 0
    empty: int = 0
    eval_mode: int = 0
    eval_submodules: int = 0
    data_s: float = 0.0
    forward_s: float = 0.0
    backward_s: float = 0.0
    optimizer_s: float = 0.0
    eval_s: float = 0.0
    checkpoint_s: float = 0.0
    losses: list[Micro] = field(default_factory=list)
    scaled: bool = False
    unscaled: bool = False

    def row(self, took_s: float, own_s: float) -> dict[str, float | int]:
        """The signals of this step that are plain numbers; `took_s` is all the time since the last update."""
        train_s = max(took_s - self.eval_s - self.checkpoint_s, 0.0)
        known_s = self.data_s + self.forward_s + self.backward_s + self.optimizer_s
        return {
            "time/step": train_s,
            "time/data": self.data_s,
            "time/forward": self.forward_s,
            "time/backward": self.backward_s,
            "time/optimizer": self.optimizer_s,
            "time/rest": max(train_s - known_s, 0.0),
            "time/eval": self.eval_s,
            "time/checkpoint": self.checkpoint_s,
            "time/traindx": own_s,
            "loop/forwards": self.forwards,
            "loop/backwards": self.backwards,
            "loop/zero_grads": self.zero_grads,
            "loop/stale_grads": self.stale,
            "loop/empty_step": self.empty,
            "loop/eval_mode": int(self.eval_mode > 0),
            "loop/eval_submodules": self.eval_submodules,
            "loop/scheduler_steps": self.scheduler_steps,
            "loop/clips": self.clips,
        }


def mean_loss(losses: list[Micro]) -> Any:
    """Mean over the micro-batches of one backward site, summed over sites; None without a loss.

    A division is undone where it shares a batch among several backwards, and only there: a sum over tokens that is divided by
    their number is the loss itself.

    >>> mean_loss([Micro("a", 0.5, 4.0, ""), Micro("a", 0.7, 4.0, "")]), mean_loss([Micro("a", 0.5, 4.0, "")])
    (2.4, 0.5)
    """
    if len(losses) == 1:
        return losses[0].value
    if not losses:
        return None
    sites: dict[str, list[Any]] = {}
    for micro in losses:
        sites.setdefault(micro.site, []).append(micro.value * micro.parts)
    return sum(sum(values) / len(values) for values in sites.values()) if sites else None
