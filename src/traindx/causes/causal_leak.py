"""The model sees what it should predict."""

from traindx.cause import Cause

causal_leak = Cause(
    name="causal-leak",
    title="the model sees what it should predict",
    likely={
        "WIRE013": 0.97,
        "LOSS010:low": 0.15,
        "EVAL006": 0.1,
        "LOSS011:zero": 0.1,
        "LOSS010": 0.1,
        "DATA007": 0.05,
    },
    prior=0.6,
    verdict="restart",
    cure="Mask the future (`is_causal=True` or `triu(1)`) and shift the labels exactly once.",
    witness=("WIRE013",),
    settle="dependency",
    cost_steps=2,
)
