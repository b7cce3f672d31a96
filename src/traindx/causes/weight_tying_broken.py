"""Weights that should be shared no longer are."""

from traindx.cause import Cause

weight_tying_broken = Cause(
    name="weight-tying-broken",
    title="tied weights are no longer tied",
    likely={
        "WIRE012": 0.97,
        "LOSS010": 0.1,
        "LOSS006": 0.1,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Tie them again after loading, resizing or copying[[ ({where})]].",
    witness=("WIRE012",),
)
