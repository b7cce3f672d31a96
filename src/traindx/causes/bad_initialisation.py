"""Initial weights have the wrong size for their depth."""

from traindx.cause import Cause

bad_initialisation = Cause(
    name="bad-initialisation",
    title="the initial weights have the wrong scale",
    likely={
        "WGHT005": 0.85,
        "LOSS010": 0.6,
        "LOSS010:high": 0.5,
        "ACTV004": 0.6,
        "ACTV003": 0.3,
        "ACTV001": 0.25,
        "GRAD002": 0.2,
        "GRAD002:early": 0.2,
        "GRAD001": 0.2,
        "LOSS006": 0.2,
        "OPTM002": 0.2,
        "LOSS001": 0.15,
        "ACTV006": 0.15,
        "LOSS002": 0.15,
        "LOSS011": 0.15,
        "EVAL004": 0.15,
        "NUMR001:norms": 0.1,
        "NUMR001:grown": 0.1,
        "NUMR001:moved": 0.1,
        "NUMR003": 0.1,
    },
    prior=0.8,
    verdict="restart",
    cure=(
        "Initialise with `kaiming_normal_` (ReLU), `xavier_uniform_` (tanh) or a deviation of 0.02 (transformers)[[, "
        "first {where}]]. Multiply the last layer by 0.1 and residual branches by 1/√(2L)."
    ),
    refutes=("DATA002", "WIRE007:sum", "WGHT004"),
    witness=("WGHT005", "LOSS010:high"),
    settle="loss-at-init",
    cost_steps=15,
    change={"init": "kaiming"},
)
