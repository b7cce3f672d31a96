"""Weights in half precision swallow updates smaller than their spacing."""

from traindx.cause import Cause

low_precision_weights = Cause(
    name="low-precision-weights",
    title="half-precision weights lose small updates",
    likely={
        "NUMR007": 0.95,
        "LOSS003": 0.3,
        "LOSS009": 0.4,
        "OPTM001": 0.5,
        "LOSS002": 0.4,
        "LOSS011:": 0.2,
        "EVAL004:chance": 0.2,
        "LOSS004": 0.2,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Keep float32 weights (use `autocast` instead of `.bfloat16()`), or round stochastically.",
    witness=("NUMR007",),
    settle="precision",
    cost_steps=4,
    change={"precision": "fp32-master"},
)
