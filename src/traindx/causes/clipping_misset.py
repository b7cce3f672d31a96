"""Clipping is so tight that it sets the size of every step, or is done where it has no effect."""

from traindx.cause import Cause

clipping_misset = Cause(
    name="clipping-misset",
    title="gradient clipping is set wrongly",
    likely={
        "OPTM006": 0.9,
        "OPTM001": 0.35,
        "LOSS004": 0.3,
        "LOSS002": 0.2,
        "LOSS009": 0.2,
        "NUMR009:clip": 0.15,
        "EVAL004": 0.1,
    },
    prior=0.8,
    verdict="fix-and-resume",
    cure="Clip by norm at[[ {p95},]] the 95 % quantile of the unclipped norms, after `unscale_` and before the step.",
    refutes=("GRAD004", "WIRE016", "OPTM002"),
    witness=("OPTM006",),
    settle="clip",
    cost_steps=100,
    not_yet=("Judge a new threshold only after 1/(1−β₂) steps: Adam's second moment has to adapt.",),
    change={"clip": "p95"},
)
