"""The model is too sure, not worse."""

from traindx.cause import Cause

miscalibration = Cause(
    name="miscalibration",
    title="the model has become overconfident, not worse",
    likely={
        "EVAL005": 0.9,
        "LOSS008:confident": 0.5,
        "LOSS008": 0.5,
        "EVAL010": 0.2,
    },
    prior=0.6,
    verdict="stop-keep-best",
    cure=(
        "Choose the checkpoint by accuracy, and divide logits by a fitted temperature[[ ({temperature})]]. Label "
        "smoothing of 0.05–0.1 prevents it."
    ),
    refutes=("EVAL007",),
)
