"""Workers share one random state."""

from traindx.cause import Cause

worker_rng = Cause(
    name="worker-rng",
    title="loader workers draw the same random numbers",
    likely={
        "REPR002": 0.95,
        "DATA009": 0.3,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Create generators in `worker_init_fn` from `get_worker_info().seed`.",
    witness=("REPR002",),
)
