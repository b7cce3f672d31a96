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
    cure="Write out of place, or clone before the change[[ ({where})]].",
    witness=("NUMR010",),
)
