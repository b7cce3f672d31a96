"""Adam's second moment lags behind the gradients, so that single updates are far too large."""

from traindx.cause import Cause

adam_stale_moments = Cause(
    name="adam-stale-moments",
    title="Adam's second moment is too slow for these gradients (β₂ too high)",
    likely={
        "OPTM007": 0.9,
        "LOSS006": 0.8,
        "GRAD003": 0.6,
        "LOSS005": 0.2,
        "LOSS001": 0.2,
    },
    prior=0.5,
    verdict="fix-and-resume",
    cure="Lower β₂ from .999 to .95–.99[[, first for {where}]], and clip gradients at their 95 % quantile.",
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
