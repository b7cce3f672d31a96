"""Gradients fade on their way to the first layers."""

from traindx.cause import Cause

vanishing_gradients = Cause(
    name="vanishing-gradients",
    title="gradients vanish before they reach the first layers",
    likely={
        "GRAD001": 0.9,
        "LOSS002": 0.5,
        "GRAD001:hidden": 0.4,
        "LOSS009": 0.3,
        "ACTV005:lost": 0.4,
        "OPTM001": 0.3,
        "ACTV004:fades": 0.3,
        "LOSS011": 0.3,
        "ACTV003": 0.25,
        "EVAL004": 0.25,
        "WGHT005:small": 0.2,
        "LOSS003": 0.15,
        "OPTM002": 0.15,  # only the last layers move, and those a lot
        "LOSS013:": 0.2,
    },
    prior=0.8,
    verdict="restart",
    cure=(
        "Use ReLU or GELU, residual connections and normalisation, and He or Xavier initialisation. For recurrent "
        "nets use a gate bias of +1 and orthogonal matrices."
    ),
    refutes=("WIRE003", "ACTV001", "WGHT004", "GRAD004:all", "WIRE006", "WIRE009:time"),
    witness=("GRAD001", "ACTV005:lost"),
    settle="overfit",
    cost_steps=300,
    not_yet=("Do not raise the learning rate: the last layers would blow up.",),
    change={"init": "kaiming"},
)
