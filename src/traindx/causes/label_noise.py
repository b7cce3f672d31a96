"""Labels conflict or are wrong."""

from traindx.cause import Cause

label_noise = Cause(
    name="label-noise",
    title="many labels are wrong or contradict each other",
    likely={
        "DATA010": 0.9,
        "DATA010:conflicts": 0.6,
        "LOSS003": 0.3,
        "LOSS009": 0.3,
        "LOSS008": 0.3,
        "LOSS011": 0.15,
        "EVAL005": 0.1,
    },
    prior=0.7,
    verdict="fix-and-resume",
    cure=(
        "Review the conflicting samples and keep the majority label or drop them. Use label smoothing of 0.1 or a "
        "robust loss for the rest."
    ),
    refutes=("DATA006", "DATA004:apart"),
    witness=("DATA010",),
    settle="overfit",
    cost_steps=300,
)
