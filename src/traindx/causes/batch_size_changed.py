"""The batch changed and the learning rate did not."""

from traindx.cause import Cause

batch_size_changed = Cause(
    name="batch-size-changed",
    title="the batch size changed but the learning rate did not",
    likely={
        "OPTM011": 0.9,
        "LOSS006": 0.2,
        "LOSS005": 0.2,
        "LOSS003": 0.2,
        "OPTM002": 0.15,
        "OPTM001": 0.15,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure=("Scale the learning rate with the batch: by k for SGD, by √k for Adam[[ (here: times {needed})]]. Warm up again."),
    witness=("OPTM011",),
    settle="noise-scale",
    cost_steps=50,
    change={"lr": "scaled"},
)
