"""The run was resumed without the optimizer's state."""

from traindx.cause import Cause

optimizer_state_lost = Cause(
    name="optimizer-state-lost",
    title="the optimizer lost its state",
    likely={
        "OPTM010:stateless": 0.6,
        "OPTM010:rebuilt": 0.5,
        "OPTM010:anew": 0.5,
        "REPR003": 0.6,
        "REPR005": 0.5,
        "LOSS006": 0.4,
        "LOSS006:reset": 0.3,
        "OPTM010:reset": 0.3,
        "GRAD003": 0.15,
    },
    prior=0.7,
    verdict="fix-and-resume",
    cure=(
        "Create the optimizer once, before the loop. After a resume load its state with the weights. If it is gone, "
        "warm up again over 200–1,000 steps."
    ),
    witness=(
        "OPTM010:stateless",
        "OPTM010:rebuilt",
        "OPTM010:anew",
        "OPTM010:reset",
        "REPR003",
        "REPR005",
    ),
    settle="resume",
    cost_steps=10,
)
