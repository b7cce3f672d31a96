"""Regression targets are far from unit scale."""

from traindx.cause import Cause

unscaled_targets = Cause(
    name="unscaled-targets",
    title="regression targets are not scaled",
    likely={
        "LOSS010:targets": 0.8,
        "LOSS010:tiny": 0.5,
        "LOSS010:large": 0.7,
        "WGHT001": 0.4,  # the last layer has a long way to go
        "ACTV004": 0.3,
        "GRAD006": 0.3,
        "GRAD002": 0.2,
        "WIRE007:unreachable": 0.2,
        "LOSS004": 0.2,
        "LOSS009": 0.2,
        "LOSS001": 0.15,
    },
    prior=0.5,
    verdict="restart",
    cure=("Standardise the targets with the training set's mean and deviation, and scale predictions back for reporting."),
    refutes=("DATA002", "WIRE008", "WGHT005"),
    witness=("LOSS010:large", "LOSS010:targets", "LOSS010:tiny"),  # the start of a classification says nothing about targets
    settle="loss-at-init",
    cost_steps=15,
    change={"normalisation": "targets"},
)
