"""The evaluation repeats an old result or sees other weights."""

from traindx.cause import Cause

stale_evaluation = Cause(
    name="stale-evaluation",
    title="the evaluation does not see the weights being trained",
    likely={
        "EVAL001": 0.95,
        "LOSS003:val": 0.4,
        "EVAL007:unmoved": 0.4,
        "LOSS008:gap": 0.3,
        "EVAL004:chance": 0.3,
        "LOSS003": 0.3,
        "EVAL007": 0.3,
        "LOSS002:frozen": 0.2,
        "EVAL010": 0.1,
    },
    prior=0.8,
    verdict="fix-evaluation",
    cure=(
        "Evaluate the module that the optimizer updates. Look for a deepcopy, a reloaded checkpoint, a cached result,"
        " or a weight average that is too slow for this run."
    ),
    witness=("EVAL001", "EVAL007:unmoved"),
    not_yet=("Do not change the training: it is fine.",),
)
