"""Probabilities are fed to a loss that expects logits."""

from traindx.cause import Cause

double_activation = Cause(
    name="double-activation",
    title="an activation is applied twice, in model and loss",
    likely={
        "WIRE006:softmax": 0.97,
        "WIRE006:sigmoid": 0.97,
        "WIRE006": 0.97,
        "WIRE006:nll": 0.02,
        "WIRE006:kl": 0.02,
        "LOSS011": 0.5,
        "LOSS011:squashed": 0.5,
        "LOSS003": 0.35,
        "LOSS009": 0.3,
        "EVAL010": 0.25,
        "LOSS002": 0.2,
        "GRAD001": 0.15,
        "OPTM001": 0.15,
        "LOSS004": 0.1,
        "EVAL004": 0.1,
        "LOSS010": 0.1,
        "OPTM005": 0.1,
        "LOSS008": 0.1,
    },
    prior=1.0,
    verdict="restart",
    cure="Give the loss logits: remove the softmax or sigmoid at the end of the model[[ ({where})]].",
    witness=("WIRE006:softmax", "WIRE006:sigmoid", "LOSS011:squashed"),
    settle="overfit",
    cost_steps=300,
)
