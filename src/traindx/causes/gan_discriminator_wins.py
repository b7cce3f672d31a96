"""The discriminator is too strong."""

from traindx.cause import Cause

gan_discriminator_wins = Cause(
    name="gan-discriminator-wins",
    title="the discriminator wins",
    likely={
        "SPEC001": 0.97,
        "GRAD001": 0.1,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="TTUR, R1 with γ = 10, spectral norm, label smoothing .9.",
    witness=("SPEC001",),
)
