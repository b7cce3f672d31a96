"""Small gradients are flushed to zero in fp16."""

from traindx.cause import Cause

precision_underflow = Cause(
    name="precision-underflow",
    title="small gradients are lost in half precision",
    likely={
        "NUMR006": 0.9,
        "OPTM001": 0.3,
        "GRAD004": 0.2,
        "LOSS009": 0.2,
        "LOSS003": 0.2,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Use a GradScaler with float16, or use bfloat16.",
    witness=("NUMR006",),
    settle="precision",
    cost_steps=4,
    change={"precision": "bf16"},
)
