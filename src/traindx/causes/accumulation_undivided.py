"""Accumulated losses are not divided by their number."""

from traindx.cause import Cause

accumulation_undivided = Cause(
    name="accumulation-undivided",
    title="accumulated losses are not divided",
    likely={
        "WIRE011:undivided": 0.97,
        "WIRE011": 0.9,
        "OPTM002": 0.3,
        "LOSS005": 0.3,
        "LOSS001": 0.25,
        "GRAD002": 0.2,
        "LOSS006": 0.15,
        "OPTM011": 0.1,
        "OPTM006": 0.1,
        "ACTV001": 0.1,
        "NUMR003": 0.1,
    },
    prior=0.6,
    verdict="fix-and-resume",
    cure=(
        "Divide each micro-batch loss by the number of micro-batches before `backward()`, or divide the learning rate by it."
    ),
    refutes=("WIRE011:double", "WIRE011:discarded", "WIRE004"),
    witness=("WIRE011:undivided",),
    change={"lr": "divided"},
)
