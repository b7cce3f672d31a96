"""The router sends everything to few experts."""

from traindx.cause import Cause

moe_router_collapse = Cause(
    name="moe-router-collapse",
    title="the router uses few experts only",
    likely={
        "SPEC005": 0.97,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Balance loss 1e-2, router z-loss 1e-3, capacity 1.25.",
    witness=("SPEC005",),
)
