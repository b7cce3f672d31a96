"""NaNs are replaced or skipped in silence."""

from traindx.cause import Cause

hidden_nan = Cause(
    name="hidden-nan",
    title="NaNs are hidden instead of fixed",
    likely={
        "NUMR008": 0.95,
        "NUMR008:inside": 0.3,
        "DATA001": 0.4,
        "NUMR001": 0.3,
        "NUMR002": 0.3,
        "NUMR001:passing": 0.3,
        "NUMR002:passing": 0.2,
        "LOSS001:passing": 0.2,
        "LOSS011": 0.1,
    },
    prior=0.6,
    verdict="fix-and-resume",
    cure="Remove `nan_to_num` and the skipping, let the first NaN show, and fix the operation that makes it.",
    witness=("NUMR008",),
    settle="replay",
    cost_steps=3,
)
