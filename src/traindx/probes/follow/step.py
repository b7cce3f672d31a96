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
    call: str  # site of the loss call when the root is only that call's output, else ""
    summed: int = 0  # how many numbers it is the sum of, when `parts` divides a sum: their count, or that of the whole update


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
            "loop/scheduler_steps": self.scheduler_steps,
            "loop/clips": self.clips,
        }


def mean_loss(losses: list[Micro]) -> Any:
    """Mean over the micro-batches of one backward site, summed over sites; None without a loss.

    A division is undone where it shares a batch among several backwards, and only there: a sum over tokens that is divided by
    their number is the loss itself, and sums that are all divided by the number of tokens of the update add up to it.

    >>> mean_loss([Micro("a", 0.5, 4.0, ""), Micro("a", 0.7, 4.0, "")]), mean_loss([Micro("a", 0.5, 4.0, "")])
    (2.4, 0.5)
    >>> mean_loss([Micro("a", 0.5, 90.0, "", 60), Micro("a", 0.75, 90.0, "", 60)])
    1.25
    >>> mean_loss([Micro("a", 2.5, 60.0, "", 60), Micro("a", 1.5, 30.0, "", 30)])
    2.0
    """
    if len(losses) == 1:
        return losses[0].value
    if not losses:
        return None
    sites: dict[str, list[Any]] = {}
    for micro in losses:
        sites.setdefault(micro.site, []).append(micro.value if micro.summed else micro.value * micro.parts)
    shared = {micro.site for micro in losses if micro.summed and _shared(losses, micro)}
    return sum(sum(values) / (1 if site in shared else len(values)) for site, values in sites.items()) if sites else None


def _shared(losses: list[Micro], one: Micro) -> bool:
    """Whether the sums of a backward site are all divided by one number, which is not the size of each."""
    own = [m for m in losses if m.site == one.site]
    return len({m.parts for m in own}) == 1 and any(m.summed != m.parts for m in own)
