"""Weights grow without bound."""

from traindx.cause import Cause

weight_growth = Cause(
    name="weight-growth",
    title="weights grow without bound",
    likely={
        "WGHT001": 0.9,
        "ACTV004:grows": 0.4,
        "GRAD002": 0.35,
        "ACTV004": 0.3,
        "ACTV007": 0.3,
        "LOSS001": 0.3,
        "LOSS006": 0.2,
        "NUMR004": 0.15,
        "LOSS005": 0.15,
    },
    prior=0.6,
    verdict="fix-and-resume",
    cure=("Add weight decay (0.01–0.1) or a constraint[[ on {where}]], divide the learning rate by 3, and clip gradients."),
    refutes=("LOSS010:targets", "WIRE004", "OPTM002", "OPTM013"),
    witness=("WGHT001",),
    settle="regularisers-off",
    cost_steps=400,
    poisons=True,
    change={"weight_decay": "on", "lr": 0.3},
)
