"""Adam's ε is larger than the square root of its second moment, so that steps are damped."""

from traindx.cause import Cause

adam_epsilon = Cause(
    name="adam-epsilon",
    title="Adam's ε is too large for these gradients",
    likely={
        "OPTM008": 0.95,
        "OPTM001": 0.6,
        "LOSS002": 0.4,
        "LOSS004": 0.2,
        "LOSS009": 0.2,
        "EVAL004": 0.15,
    },
    prior=0.4,
    verdict="restart",
    cure="Set `eps` to 1e-12, or stop dividing the loss twice so that gradients have their natural size.",
    refutes=("OPTM002", "GRAD004"),
    witness=("OPTM008",),
    adaptive=True,
    settle="fix",
    cost_steps=200,
    change={"eps": 1e-12},
)
