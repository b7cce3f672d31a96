"""A checkpoint was loaded only in part."""

from traindx.cause import Cause

partial_checkpoint = Cause(
    name="partial-checkpoint",
    title="the checkpoint was loaded only in part",
    likely={
        "WIRE015:prefix": 0.95,
        "WIRE015:missing": 0.95,
        "WIRE015:head": 0.95,
        "TUNE008": 0.4,
        "LOSS010": 0.3,
        "LOSS002": 0.05,
    },
    prior=0.6,
    verdict="restart",
    cure=(
        "Load with `strict=True` and read the message; strip prefixes such as `module.` or `_orig_mod.`[[; missing: {where}]]."
    ),
    witness=("WIRE015:prefix", "WIRE015:missing", "WIRE015:head"),
    settle="base-eval",
    cost_steps=1,
)
