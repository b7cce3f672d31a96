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
    cure=(
        "Recompute the metric[[ ({where})]] from the predictions of one pass. Check the axis of argmax, the threshold"
        " on logits, label offsets and ignored positions."
    ),
    witness=("EVAL003",),
    not_yet=("Do not change the training.",),
)
