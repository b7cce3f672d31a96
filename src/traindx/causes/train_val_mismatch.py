"""Validation is prepared differently from training.

Told from overfitting by a gap that is there at the first evaluation.
"""

from traindx.cause import Cause

train_val_mismatch = Cause(
    name="train-val-mismatch",
    title="validation is prepared differently from training",
    likely={
        "DATA008": 0.9,
        "EVAL007:never": 0.6,
        "EVAL007:unmoved": 0.5,
        "EVAL007": 0.45,
        "EVAL004": 0.35,
        "LOSS008": 0.25,
        "EVAL002": 0.2,
        "EVAL006": 0.1,
        "DATA003:permuted": 0.1,
        "DATA003:apart": 0.1,
        "LOSS001": 0.1,
        "LOSS006:coarse": 0.1,
    },
    prior=0.9,
    verdict="fix-evaluation",
    cure=(
        "Prepare training and validation with one function and the training set's constants. Then evaluate the same "
        "weights again."
    ),
    refutes=("EVAL001", "ACTV008"),
    witness=("DATA008", "EVAL007:never", "EVAL007:unmoved"),
    not_yet=("Do not regularise: training is fine.",),
)
