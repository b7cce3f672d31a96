"""The device moves numbers instead of computing."""

from traindx.cause import Cause

copying = Cause(
    name="copying",
    title="much of a step is copying",
    likely={
        "PERF010": 0.95,
        "PERF005": 0.1,
    },
    prior=0.2,
    verdict="fix-and-resume",
    cure="pin_memory and non_blocking copies, one memory format, torch.compile to fuse.",
    witness=("PERF010",),
)
