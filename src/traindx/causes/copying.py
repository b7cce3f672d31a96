"""The device moves numbers instead of computing."""

from traindx.cause import Cause

copying = Cause(
    name="copying",
    title="much of each step goes into copying",
    likely={
        "PERF010": 0.95,
        "PERF005": 0.1,
    },
    prior=0.2,
    verdict="fix-and-resume",
    cure="Use `pin_memory` and non-blocking copies, keep one memory format, and let `torch.compile` fuse operations.",
    witness=("PERF010",),
)
