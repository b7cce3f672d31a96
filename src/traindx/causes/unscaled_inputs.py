"""Inputs are far from unit scale."""

from traindx.cause import Cause

unscaled_inputs = Cause(
    name="unscaled-inputs",
    title="inputs are not scaled",
    likely={
        "DATA002": 0.9,
        "LOSS010": 0.6,
        "ACTV004": 0.25,
        "LOSS006": 0.2,
        "ACTV001": 0.2,
        "ACTV003": 0.4,
        "ACTV005": 0.3,
        "GRAD004:zero": 0.2,
        "LOSS011:": 0.2,
        "GRAD002": 0.15,
        "OPTM002": 0.5,
        "LOSS001:nonfinite": 0.3,
        "NUMR003": 0.25,
        "NUMR002": 0.15,
        "LOSS005": 0.15,
        "LOSS002": 0.15,
        "WGHT005": 0.15,
        "LOSS009": 0.15,
        "NUMR004": 0.1,
        "NUMR005": 0.1,
        "LOSS001": 0.2,
        "EVAL004": 0.1,
    },
    prior=1.5,
    verdict="restart",
    cure=(
        "Standardise every feature with the training set's mean and deviation, in one function for training and "
        "validation. Divide pixels by 255."
    ),
    witness=("DATA002",),
    settle="loss-at-init",
    cost_steps=15,
    change={"normalisation": "inputs"},
)
