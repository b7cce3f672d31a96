"""Nothing is wrong; it is slow."""

from traindx.cause import Cause

still_converging = Cause(
    name="still-converging",
    title="it is still converging",
    likely={
        "LOSS004": 0.95,
        "LOSS004:extend": 0.5,
        "OPTM001": 0.1,
        "EVAL002": 0.1,
    },
    prior=1.5,
    verdict="wait",
    cure="Let it run[[: {forecast} expected at step {at_step}]].",
    refutes=("LOSS001", "LOSS008", "OPTM002", "OPTM003", "LOSS002"),
    not_yet=("do not change anything that works",),
)
