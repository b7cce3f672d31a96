"""Which conditions lack generated cases: at least three bases with the fault, and a level that must stay quiet."""

from __future__ import annotations

from collections import defaultdict

from clinic.case import HERE
from clinic.generate import BASES
from clinic.operators import OPERATORS

from traindx.rule import catalogue

LEAST_BASES = 3
NO_SENSE = {
    "DIST": "a distributed run is several processes; tests/ranks has its programs",
    "PERF": "time on a shared machine is no ground truth; written cases and stored runs stand for it",
    "ACTV002": "creeps up over longer runs than the clinic can afford",
    "EVAL010": "needs a log with the accuracy of every step",
    "GRAD005": "known from a trial only",
    "GRAD007": "needs sixty looks at every layer, which the budget of so short a run does not allow",
    "LOSS013": "follows from any fault that keeps a run from learning; bench/sweeps.py holds its truth",
    "OPTM012": "known from a trial only",
    "REPR002": "needs loader workers",
    "REPR003": "needs two runs",
    "REPR004": "needs two runs",
    "SPEC006": "needs what a script reports about its embeddings; ACTV009 sees the collapse itself",
    "SPEC007": "needs what a script reports about its noise levels",
}
# conditions of tasks of which there is one base program each (a GAN, a VAE, a policy, experts, adapters, contrastive views) or
# two (padded text with an end)
FEW_OF_A_KIND = {"SPEC": 1, "TUNE005": 1, "ACTV009": 1, "TUNE004": 2}


def table() -> dict[str, tuple[int, int]]:
    """Per condition the number of bases that carry its fault, and of those with a quiet level."""
    texts = {b: (HERE / "bases" / f"{b}.py").read_text(encoding="utf-8") for b in BASES}
    sick: dict[str, set[str]] = defaultdict(set)
    quiet: dict[str, set[str]] = defaultdict(set)
    for operator in OPERATORS:
        for level in operator.levels:
            into = quiet if level.quiet else sick
            into[operator.condition] |= {b for b in BASES if operator.apply(b, texts[b], level) is not None}
    return {code: (len(sick[code]), len(quiet[code])) for code in catalogue()}


def missing() -> dict[str, tuple[int, int]]:
    """Conditions with too few bases or no quiet level, but for those where generated cases make no sense."""
    excused = tuple(NO_SENSE)
    asked = {c: next((n for few, n in FEW_OF_A_KIND.items() if c.startswith(few)), LEAST_BASES) for c in catalogue()}
    return {c: n for c, n in table().items() if (n[0] < asked[c] or not n[1]) and not c.startswith(excused)}


def page() -> str:
    lacking = missing()
    rows = [f"{code}: fault in {sick} bases, quiet level in {quiet}" for code, (sick, quiet) in sorted(lacking.items())]
    return "\n".join([*rows, f"{len(lacking)} of {len(table())} conditions lack generated cases"])
