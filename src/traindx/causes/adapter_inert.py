"""Adapters do not learn."""

from traindx.cause import Cause

adapter_inert = Cause(
    name="adapter-inert",
    title="the adapters do nothing",
    likely={
        "TUNE005": 0.97,
        "LOSS002": 0.4,
        "WIRE001": 0.3,
        "GRAD004": 0.3,
        "OPTM001": 0.2,
        "LOSS003": 0.2,
        "WIRE003": 0.15,
    },
    prior=0.4,
    verdict="restart",
    cure=(
        "Check `target_modules` and which adapter is active, and build the optimizer after adding adapters. With "
        "gradient checkpointing call `enable_input_require_grads()`."
    ),
    witness=("TUNE005",),
)
