"""Labels are all ignored in some or all batches."""

from traindx.cause import Cause

labels_masked = Cause(
    name="labels-masked",
    title="all labels of some batches are ignored",
    likely={
        "TUNE002": 0.97,
        "NUMR001:empty": 0.5,
        "LOSS001:nonfinite": 0.4,
        "NUMR001": 0.4,
        "LOSS011:zero": 0.3,
        "LOSS001": 0.3,
        "LOSS011": 0.2,
        "WIRE016": 0.2,
        "GRAD004": 0.2,
        "LOSS002": 0.2,
        "NUMR008": 0.15,
        "NUMR003": 0.05,
    },
    prior=0.6,
    verdict="fix-and-resume",
    cure=(
        "Check the response template, truncate the prompt and not the answer, and leave out samples without a label. "
        "The weights are fine."
    ),
    witness=("TUNE002", "LOSS011:zero"),
)
