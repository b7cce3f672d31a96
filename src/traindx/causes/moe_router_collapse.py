"""The router sends everything to few experts."""

from traindx.cause import Cause

moe_router_collapse = Cause(
    name="moe-router-collapse",
    title="the router uses only a few experts",
    likely={
        "SPEC005": 0.97,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Add a balance loss of 1e-2 and a router z-loss of 1e-3, and set the capacity to 1.25.",
    witness=("SPEC005",),
)
