"""A small gradient with negative curvature: the loss will fall again once the direction is found."""

from traindx.cause import Cause

saddle = Cause(
    name="saddle",
    title="the run sits at a saddle point",
    likely={
        "LOSS003": 0.6,
        "LOSS002": 0.3,
        "GRAD001": 0.2,
        "OPTM005": 0.1,
        "ACTV002": 0.1,
    },
    prior=0.25,
    verdict="fix-and-resume",
    cure=(
        "Wait, or push it with a short burst of a higher learning rate or noise; `traindx trial sharpness` shows the direction."
    ),
    refutes=("OPTM003", "EVAL001", "LOSS008"),
    settle="sharpness",
    cost_steps=20,
    change={"lr": 3.0},
)
