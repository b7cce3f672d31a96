"""Updates are made without gradients."""

from traindx.cause import Cause

step_without_gradient = Cause(
    name="step-without-gradient",
    title="updates are made without a gradient",
    likely={
        "WIRE016": 0.97,
        "LOSS002": 0.6,
        "GRAD004": 0.6,
        "GRAD004:all": 0.4,
        "OPTM001": 0.4,
        "LOSS011": 0.4,
        "WIRE011:double": 0.3,
        "LOSS009": 0.3,
        "EVAL001": 0.3,
        "EVAL004": 0.3,
        "EVAL009": 0.25,
        "LOSS002:frozen": 0.2,
        "WIRE003": 0.1,
        "LOSS003": 0.1,
    },
    prior=0.7,
    verdict="restart",
    cure="Call zero_grad, forward, backward, (clip), step, in this order.",
    refutes=("WIRE016:unreached",),
    witness=("WIRE016",),
    settle="one-step",
    cost_steps=2,
)
