"""Attention logits grow until heads are one-hot."""

from traindx.cause import Cause

attention_collapse = Cause(
    name="attention-collapse",
    title="attention has collapsed: its logits grow without bound",
    likely={
        "ACTV006": 0.9,
        "LOSS006": 0.4,
        "GRAD003": 0.3,
        "LOSS001": 0.2,
        "ACTV007": 0.2,
        "NUMR004": 0.2,
        "WGHT001": 0.2,
        "LOSS005": 0.2,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure=("Normalise queries and keys (QK-norm) or cap the logits at 50. Divide the learning rate by 3 and warm up longer."),
    refutes=("WIRE017",),
    witness=("ACTV006",),
    settle="fix",
    cost_steps=400,
    poisons=True,
    change={"lr": 0.3, "warmup": 0.05},
)
