"""The shape of a cause: plain data about what would explain findings. It speaks of rules and trials only by name."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

VERDICTS = ("wait", "stop-keep-best", "fix-and-resume", "fix-evaluation", "restart")
# Experiments a cause may name to settle it (CATALOGUE part 5): trials, and the replay of a capsule.
TRIALS = (
    "anneal",
    "base-eval",
    "cached-batch",
    "clip",
    "dependency",
    "determinism",
    "fix",
    "input-baseline",
    "label-info",
    "landscape",
    "loss-at-init",
    "lr-range",
    "lr-tenth",
    "mode-gap",
    "noise-scale",
    "one-step",
    "overfit",
    "precision",
    "regularisers-off",
    "replay",
    "resume",
    "sharpness",
)
# What `change` may hold. Numbers multiply the present value (eps and beta2 replace it, warmup is a share of the steps).
# Words say how: lr "peak" back to its highest value, "scaled" with the batch, "divided" by the micro-batches; clip "p95" of
# the norms; schedule "anneal" to zero or "relaid" over the real number of steps; init and normalisation by their names.
CHANGES = (
    "batch",
    "beta2",
    "clip",
    "eps",
    "init",
    "lr",
    "mode",
    "momentum",
    "normalisation",
    "precision",
    "regularisers",
    "schedule",
    "warmup",
    "weight_decay",
)


@dataclass(frozen=True)
class Cause:
    """What would explain findings, and what to do about it.

    `likely` gives, for each rule code, how often that rule is *found* when this cause is at work; a code may carry a
    variant (`LOSS011:softmax-floor`). Codes that are not named count with the rule's false-alarm rate.
    """

    name: str  # kebab-case
    title: str  # completes "The likely cause is …" with a lower-case clause
    likely: Mapping[str, float]
    prior: float  # relative frequency among sick runs
    verdict: str  # fix-and-resume, restart, fix-evaluation, stop-keep-best, wait
    cure: str  # what to do; {named} values are filled from the findings' facts where they exist
    refutes: tuple[str, ...] = ()  # codes whose presence speaks against it
    witness: tuple[str, ...] = ()  # without one of these found it is not considered; empty: symptoms alone may suggest it
    settle: str = ""  # the trial that would settle it
    cost_steps: int = 0  # what that trial costs
    not_yet: tuple[str, ...] = ()  # contraindications
    poisons: bool = False  # the damage is in the weights: resume only from before onset
    regimes: tuple[str, ...] = field(default=())  # facts of which one must hold for it to be considered
    adaptive: bool = False  # not considered under an optimizer that keeps no second moments
    change: Mapping[str, float | str] = field(default_factory=dict)  # the cure as `trial fix` can apply it (see CHANGES)

    def command(self, target: str = "train.py") -> str:
        """The command that settles it, ready to type."""
        return settling(self.settle, target) + (f" --set cause={self.name}" if self.settle == "fix" else "")

    @property
    def cost(self) -> str:
        """What the settling trial costs, in words."""
        return f"about {self.cost_steps} step{'s' if self.cost_steps != 1 else ''}"

    @property
    def advice(self) -> str:
        """The cure where no run gives it values."""
        return re.sub(r"\{[^}]*\}", "…", re.sub(r"\[\[.*?\]\]", "", self.cure))


def settling(experiment: str, target: str = "TARGET") -> str:
    """The command that makes an experiment which settles a cause.

    >>> settling("lr-range"), settling("replay")
    ('traindx trial lr-range TARGET', 'traindx replay CAPSULE')
    """
    return "traindx replay CAPSULE" if experiment == "replay" else f"traindx trial {experiment} {target}"


@cache
def catalogue() -> dict[str, Cause]:
    """Every cause by name, from the tables in the folder `traindx/causes`."""
    package = importlib.import_module("traindx.causes")
    tables = [importlib.import_module(f"traindx.causes.{info.name}").CAUSES for info in pkgutil.iter_modules(package.__path__)]
    found = {cause.name: cause for table in tables for cause in table}
    return dict(sorted(found.items()))
