"""The same seed gives different runs."""

from traindx.cause import Cause

nondeterminism = Cause(
    name="nondeterminism",
    title="the run is not deterministic",
    likely={
        "REPR001": 0.95,
        "REPR004": 0.2,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Call `traindx.seed_everything(seed, deterministic=True)`[[; the first difference is in {where}]].",
    witness=("REPR001",),
    settle="determinism",
    cost_steps=6,
)
