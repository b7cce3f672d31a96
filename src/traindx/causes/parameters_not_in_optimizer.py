"""Trainable parameters belong to no optimizer."""

from traindx.cause import Cause

parameters_not_in_optimizer = Cause(
    name="parameters-not-in-optimizer",
    title="the optimizer does not hold all parameters",
    likely={
        "WIRE001": 0.95,
        "WIRE016:unreached": 0.4,
        "LOSS009": 0.25,
        "LOSS002": 0.25,
        "WIRE001:stale": 0.2,
        "LOSS003": 0.2,
        "OPTM001": 0.2,
        "LOSS011": 0.1,
        "GRAD004": 0.1,
        "TUNE005:unowned": 0.1,
        "EVAL004": 0.1,
        "OPTM010": 0.05,
    },
    prior=1.0,
    verdict="restart",
    cure=("Build the optimizer after the model is complete, or call `add_param_group`[[ for {where}]]. Then start again."),
    refutes=("WIRE014:unregistered",),
    witness=("WIRE001",),
)
