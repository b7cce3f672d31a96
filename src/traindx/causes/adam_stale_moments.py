"""Adam's second moment lags behind the gradients, so that single updates are far too large.

A learning rate that is too high shows the same, far more often, and is tried first: what both produce counts the same here and
there, and only the experiment (`trial fix` with another β₂) tells them apart.
"""

from traindx.cause import Cause

adam_stale_moments = Cause(
    name="adam-stale-moments",
    title="Adam's second moment adapts too slowly to these gradients",
    likely={
        "OPTM007": 0.7,
        "LOSS006": 0.3,
        "GRAD003": 0.3,
        "LOSS005": 0.2,
        "LOSS001": 0.2,
    },
    prior=0.1,
    verdict="fix-and-resume",
    cure=("Lower β₂ from 0.999 to 0.95–0.99[[, first for {where}]], and clip gradients at the 95 % quantile of their norms."),
    refutes=("DATA001:nonfinite", "WIRE004", "LOSS006:reset"),
    witness=(
        "OPTM007",
        "LOSS006",
    ),
    adaptive=True,
    settle="fix",
    cost_steps=400,
    change={"beta2": 0.95, "clip": "p95"},
)
