"""The evaluation repeats an old result or sees other weights."""

from traindx.cause import Cause

stale_evaluation = Cause(
    name="stale-evaluation",
    title="the evaluation does not see the weights that are trained",
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
    cure="Evaluate the module that the optimizer updates; no deepcopy, no reloaded checkpoint, no cached result, no "
    "average that forgets more slowly than the run is long.",
    witness=("EVAL001", "EVAL007:unmoved"),
    not_yet=("do not touch the training: it is fine",),
)
