"""Labels do not fit the head."""

from traindx.cause import Cause

label_encoding = Cause(
    name="label-encoding",
    title="labels are encoded wrongly for this head",
    likely={
        "DATA003": 0.95,
        "LOSS002": 0.2,
        "LOSS011:negative": 0.2,
        "LOSS001": 0.2,
        "EVAL004": 0.2,
        "EVAL004:class": 0.2,
        "EVAL007": 0.2,
        "EVAL003": 0.15,
        "LOSS009": 0.15,
        "NUMR001": 0.05,
    },
    prior=0.9,
    verdict="restart",
    cure=(
        "Map labels to 0 … C−1 with one table for training and validation, set `ignore_index` for 'no label', and use"
        " a loss that fits them."
    ),
    witness=("DATA003", "EVAL004:class"),
    settle="overfit",
    cost_steps=300,
)
