"""A tensor that backward needs was changed in place."""

from traindx.cause import Cause

inplace_modification = Cause(
    name="inplace-modification",
    title="a tensor needed by backward is changed in place",
    likely={
        "NUMR010": 0.98,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Use the out-of-place form (`x = x + y`), or clone before the change[[ ({where})]].",
    witness=("NUMR010",),
)
