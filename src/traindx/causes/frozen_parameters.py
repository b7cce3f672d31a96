"""Parameters are frozen that should train."""

from traindx.cause import Cause

frozen_parameters = Cause(
    name="frozen-parameters",
    title="parameters that should train are frozen",
    likely={
        "WIRE002": 0.95,
        "WIRE016:unreached": 0.3,
        "WIRE002:part": 0.4,
        "WIRE002:scratch": 0.4,
        "GRAD004": 0.3,
        "LOSS009": 0.2,
        "LOSS002": 0.15,
        "LOSS003": 0.15,
        "WIRE002:nothing": 0.1,
        "OPTM001": 0.1,
    },
    prior=0.8,
    verdict="fix-and-resume",
    cure="Set `requires_grad=True`[[ on {where}]] and give these parameters to the optimizer.",
    refutes=("WIRE001",),
    witness=("WIRE002",),
)
