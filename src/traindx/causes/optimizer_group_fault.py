"""A parameter group is empty, held twice, or left out of the schedule."""

from traindx.cause import Cause

optimizer_group_fault = Cause(
    name="optimizer-group-fault",
    title="a parameter group of the optimizer is set up wrongly",
    likely={
        "OPTM010": 0.8,
        "OPTM010:idle": 0.5,
        "OPTM010:zero": 0.4,
        "OPTM010:twice": 0.4,
        "OPTM010:empty": 0.3,
        "OPTM001": 0.3,
        "LOSS009": 0.15,
        "OPTM003": 0.1,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure=(
        "Give every parameter to exactly one group with its own learning rate[[ (look at {where})]], and let the "
        "scheduler cover all groups."
    ),
    refutes=("REPR003", "OPTM010:stateless"),
    witness=(
        "OPTM010:idle",
        "OPTM010:zero",
        "OPTM010:twice",
        "OPTM010:empty",
    ),
)
