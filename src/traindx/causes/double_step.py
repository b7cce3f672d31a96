"""The optimizer steps twice per gradient."""

from traindx.cause import Cause

double_step = Cause(
    name="double-step",
    title="the optimizer steps twice on one gradient",
    likely={
        "WIRE011:double": 0.97,
        "WIRE011": 0.9,
        "LOSS005": 0.2,
        "OPTM002": 0.15,
        "LOSS001": 0.1,
        "WIRE010": 0.1,
        "GRAD007": 0.1,
        "OPTM001": 0.03,
    },
    prior=0.5,
    verdict="fix-and-resume",
    cure="Step once per backward: remove the second `optimizer.step()`.",
    refutes=("WIRE011:undivided", "WIRE016"),
    witness=("WIRE011:double",),
)
