"""Training would continue falling, validation would not follow."""

from traindx.cause import Cause

generalisation_limited = Cause(
    name="generalisation-limited",
    title="more training does not help: generalisation is the limit",
    likely={
        "LOSS003:val": 0.7,
        "LOSS008:gap": 0.6,
        "LOSS008": 0.3,
        "EVAL002": 0.4,
        "LOSS003": 0.3,
        "LOSS004": 0.3,
        "EVAL005": 0.2,
        "LOSS012:stairs": 0.2,
    },
    prior=1.2,
    verdict="stop-keep-best",
    cure=(
        "Keep the best checkpoint[[ (step {best_step})]]. To improve it you need more data, augmentation or "
        "regularisation, not more steps."
    ),
    refutes=("DATA004:", "DATA004:trial", "EVAL001", "DATA008", "OPTM003", "ACTV008", "EVAL009"),
    settle="anneal",
    cost_steps=200,
)
