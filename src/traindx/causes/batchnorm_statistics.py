"""Running statistics do not describe the data that evaluation sees.

Told from a wrong preparation of validation by training batches that are bad in eval mode too.
"""

from traindx.cause import Cause

batchnorm_statistics = Cause(
    name="batchnorm-statistics",
    title="BatchNorm's running statistics do not match the data",
    likely={
        "ACTV008": 0.9,
        "ACTV008:gap": 0.5,
        "EVAL007": 0.4,
        "EVAL002": 0.35,
        "LOSS008": 0.25,
        "EVAL004": 0.25,
        "LOSS006:coarse": 0.2,
        "DATA012:single": 0.2,
        "LOSS001": 0.15,
        "EVAL005": 0.1,
        "EVAL009:buffers": 0.1,
    },
    prior=0.9,
    verdict="fix-evaluation",
    cure=(
        "Recompute the statistics over 200 training batches with momentum 0.1. With fewer than 8 samples per device "
        "use GroupNorm or SyncBatchNorm."
    ),
    refutes=("EVAL001", "DATA008", "WIRE005"),
    witness=("ACTV008",),
    settle="mode-gap",
    cost_steps=20,
    not_yet=("Do not regularise: training is fine.",),
    change={"normalisation": "recomputed"},
)
