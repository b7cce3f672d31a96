"""Gradients are cleared before an update has used them."""

from traindx.cause import Cause

gradients_discarded = Cause(
    name="gradients-discarded",
    title="most gradients are cleared before an update uses them",
    likely={
        "WIRE011:discarded": 0.97,
        "LOSS004": 0.6,
        "EVAL004": 0.3,
        "LOSS009": 0.3,
        "OPTM001": 0.2,
        "LOSS002": 0.2,
        "LOSS003": 0.1,
    },
    prior=0.6,
    verdict="fix-and-resume",
    cure=(
        "Move `optimizer.step()` into the loop over batches, after each backward. To accumulate, call `zero_grad` "
        "only after a step."
    ),
    witness=("WIRE011:discarded",),
)
