"""Pretrained weights are missing."""

from traindx.cause import Cause

pretrained_not_loaded = Cause(
    name="pretrained-not-loaded",
    title="the pretrained weights were not loaded",
    likely={
        "TUNE008": 0.95,
        "WIRE015:prefix": 0.5,
        "WIRE015:missing": 0.5,
        "WIRE015:head": 0.5,
        "LOSS010": 0.2,
    },
    prior=0.5,
    verdict="restart",
    cure="Load with `strict=True` and read the message, check the path and the prefixes, and start again.",
    witness=("TUNE008",),
    settle="base-eval",
    cost_steps=1,
)
