"""The latent code is ignored."""

from traindx.cause import Cause

vae_posterior_collapse = Cause(
    name="vae-posterior-collapse",
    title="the latent code is ignored: the posterior has collapsed",
    likely={
        "SPEC003": 0.97,
    },
    prior=0.4,
    verdict="restart",
    cure="Warm the KL term up over 10–50 thousand steps, and use free bits of 0.1–0.5.",
    witness=("SPEC003",),
)
