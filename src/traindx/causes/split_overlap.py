"""Validation samples were trained on."""

from traindx.cause import Cause

split_overlap = Cause(
    name="split-overlap",
    title="validation overlaps with training",
    likely={
        "DATA006": 0.95,
        "EVAL006": 0.4,
    },
    prior=0.8,
    verdict="fix-evaluation",
    cure="Remove duplicates, split by group or time, and validate again. Do not choose a model by the figures so far.",
    witness=("DATA006",),
)
