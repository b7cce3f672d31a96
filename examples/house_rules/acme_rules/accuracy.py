"""Validation accuracy below the house limit: a model that is worse than the old one must not be shipped.

The limit is a setting, like those of traindx: `[rules.ACME001] least = 0.9`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "ACME001",
    needs={"accuracy/val": 3},
    says="the best validation accuracy is {best:.3f}, and the house limit is {least:.3f}",
    fix="Do not ship it; compare it with the model in production.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
)
def below_house_limit(run: Run, *, least: float = 0.8) -> Iterator[Evidence]:
    """Look at the best evaluation."""
    best = float(np.nanmax(run["accuracy/val"].values))
    if best < least:
        yield Evidence({"best": best, "least": least})
