"""Batches come sorted or in a fixed order."""

from traindx.cause import Cause

data_not_shuffled = Cause(
    name="data-not-shuffled",
    title="the training data are not shuffled",
    likely={
        "DATA005": 0.95,
        "DATA005:sorted": 0.6,
        "LOSS005": 0.4,
        "LOSS012": 0.4,
        "LOSS006": 0.4,
        "GRAD003": 0.3,
        "EVAL004": 0.3,
        "ACTV005": 0.2,
        "GRAD007": 0.25,
        "ACTV008": 0.2,
        "EVAL002": 0.2,
        "LOSS003": 0.2,
        "LOSS009": 0.2,
        "LOSS007": 0.15,
        "LOSS001": 0.15,
        "EVAL007": 0.15,
        "LOSS002": 0.1,
        "DIST002:order": 0.1,
    },
    prior=1.0,
    verdict="fix-and-resume",
    cure=(
        "Set `shuffle=True` on the training loader. Call `set_epoch` on a distributed sampler; give a stream a buffer"
        " ten times as long as a run of one class."
    ),
    witness=("DATA005",),
)
