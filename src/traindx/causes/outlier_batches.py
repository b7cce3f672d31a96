"""Single batches are extreme; the weights are not to blame."""

from traindx.cause import Cause

outlier_batches = Cause(
    name="outlier-batches",
    title="a few samples are extreme",
    likely={
        "LOSS007": 0.75,
        "GRAD003": 0.6,
        "LOSS007:repeating": 0.5,
        "DATA001:harmful": 0.5,
        "DATA001": 0.4,
        "DATA001:extreme": 0.3,
        "LOSS006": 0.3,
        "GRAD002": 0.2,
        "LOSS001:excursion": 0.2,
        "LOSS005": 0.15,
        "GRAD007": 0.1,
    },
    prior=0.8,
    verdict="fix-and-resume",
    cure=(
        "Look at the samples of those steps[[ (step {worst})]] and drop them, clip the loss per sample, or use a "
        "Huber loss. Clip gradients[[ at {p95}]]."
    ),
    refutes=("LOSS001:risen", "LOSS001:worse", "LOSS001:nonfinite", "WIRE004", "OPTM002", "DATA005:sorted"),
    witness=(
        "LOSS007",
        "DATA001:harmful",
        "DATA001:extreme",
        "GRAD003",
    ),
    change={"clip": "p95"},
)
