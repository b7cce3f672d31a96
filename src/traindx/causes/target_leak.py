"""A feature gives the label away."""

from traindx.cause import Cause

target_leak = Cause(
    name="target-leak",
    title="a feature gives the label away",
    likely={
        "DATA007": 0.95,
        "EVAL006": 0.2,
        "LOSS010:low": 0.1,
    },
    prior=0.6,
    verdict="restart",
    cure="Drop the feature[[ {where}]] unless it is known at prediction time. Split by time and start again.",
    witness=("DATA007",),
)
