"""The discriminator is too strong."""

from traindx.cause import Cause

gan_discriminator_wins = Cause(
    name="gan-discriminator-wins",
    title="the discriminator is too strong for the generator",
    likely={
        "SPEC001": 0.97,
        "GRAD001": 0.1,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure=(
        "Weaken the discriminator: an R1 penalty with γ = 10, spectral norm, labels of 0.9, or a lower learning rate for it."
    ),
    witness=("SPEC001",),
)
