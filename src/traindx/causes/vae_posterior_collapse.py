"""The latent code is ignored."""

from traindx.cause import Cause

vae_posterior_collapse = Cause(
    name="vae-posterior-collapse",
    title="the posterior has collapsed: the code is ignored",
    likely={
        "SPEC003": 0.97,
    },
    prior=0.4,
    verdict="restart",
    cure="Warm the KL term up over 10–50 thousand steps, free bits .1–.5.",
    witness=("SPEC003",),
)
