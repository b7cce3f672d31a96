"""The batch is too small for the signal left in the gradient."""

from traindx.cause import Cause

gradient_noise = Cause(
    name="gradient-noise",
    title="gradients are mostly sampling noise at this batch size",
    likely={
        "GRAD005": 0.9,
        "LOSS003": 0.4,
        "LOSS005": 0.2,
        "EVAL002": 0.2,
    },
    prior=0.5,
    verdict="fix-and-resume",
    cure="Use four to eight times the batch size (or accumulate), lower the learning rate, or average the weights.",
    refutes=("DATA004", "OPTM001", "LOSS001"),
    witness=("GRAD005",),
    settle="noise-scale",
    cost_steps=50,
    change={"batch": 4},
)
