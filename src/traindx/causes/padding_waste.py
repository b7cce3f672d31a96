"""Most tokens are padding."""

from traindx.cause import Cause

padding_waste = Cause(
    name="padding-waste",
    title="most of what is computed is padding",
    likely={
        "PERF009": 0.95,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Bucket sequences by length, pad to the longest of each batch, or pack them[[: up to {gain} times as fast]].",
    witness=("PERF009",),
)
