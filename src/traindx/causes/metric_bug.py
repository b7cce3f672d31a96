"""A metric is computed wrongly."""

from traindx.cause import Cause

metric_bug = Cause(
    name="metric-bug",
    title="a reported metric is computed wrongly",
    likely={
        "EVAL003": 0.95,
        "EVAL004:majority": 0.1,
        "EVAL001": 0.05,
    },
    prior=0.6,
    verdict="fix-evaluation",
    cure="Recompute[[ {where}]] from the predictions of one pass: axis of argmax, threshold on logits, label offset, "
    "ignored positions.",
    witness=("EVAL003",),
    not_yet=("do not touch the training",),
)
