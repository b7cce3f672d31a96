"""Head and loss do not belong together."""

from traindx.cause import Cause

loss_head_mismatch = Cause(
    name="loss-head-mismatch",
    title="the output layer does not fit the loss",
    likely={
        "WIRE007": 0.8,
        "WIRE006:nll": 0.95,
        "WIRE006:kl": 0.95,
        "LOSS009": 0.35,
        "LOSS011": 0.3,
        "LOSS003": 0.3,
        "LOSS002": 0.25,
        "EVAL004": 0.25,
        "LOSS010": 0.2,
        "ACTV003": 0.15,
        "ACTV005": 0.15,
        "LOSS010:summed": 0.1,
        "GRAD004": 0.1,
        "OPTM002": 0.1,
        "LOSS001": 0.1,
    },
    prior=0.9,
    verdict="restart",
    cure=(
        "Use a pair that belongs together: logits with `cross_entropy` and one output per class on axis 1, or a "
        "linear output for unbounded targets."
    ),
    witness=("WIRE007", "WIRE006:nll", "WIRE006:kl"),
    settle="overfit",
    cost_steps=300,
)
