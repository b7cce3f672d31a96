"""The first steps are too large for cold moments; later the same rate is stable.

Told from a rate that is too high for good by what a fork from a later checkpoint does.
"""

from traindx.cause import Cause

warmup_missing = Cause(
    name="warmup-missing",
    title="training starts at full learning rate without a warm-up",
    likely={
        "OPTM004": 0.8,
        "OPTM002": 0.4,
        "LOSS006": 0.4,
        "GRAD003": 0.3,
        "LOSS001": 0.25,
        "ACTV005": 0.25,
        "LOSS002": 0.25,
        "LOSS011": 0.2,
        "ACTV006": 0.15,
        "OPTM007": 0.15,
    },
    prior=0.8,
    verdict="restart",
    cure=("Warm the learning rate up linearly over[[ {steps} steps,]] at least 2/(1−β₂) or 1 % of the steps, and start again."),
    refutes=("WIRE004", "WIRE011", "DATA001:nonfinite"),
    witness=("OPTM004",),
    settle="fix",
    cost_steps=400,
    poisons=True,
    change={"warmup": 0.05},
)
