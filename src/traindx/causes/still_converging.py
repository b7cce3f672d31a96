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
    refutes=(
        "LOSS004:crawls",
        "LOSS001",
        "LOSS002",
        "LOSS005",
        "LOSS008",
        "LOSS009",
        "OPTM002",
        "OPTM003",
        "OPTM008",
        "EVAL001",
        "EVAL004",
        "WGHT001",
        "ACTV001",
        "ACTV005",
        "DATA004",
        "DATA011:harm",
        "NUMR001",
        "NUMR003",
    ),
    not_yet=("Do not change anything that works.",),
)
