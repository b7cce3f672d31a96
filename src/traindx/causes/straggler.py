"""One rank is slow."""

from traindx.cause import Cause

straggler = Cause(
    name="straggler",
    title="one rank slows down all others",
    likely={
        "DIST004": 0.97,
        "PERF007": 0.2,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Balance the sequence lengths, and check clock, disk and ECC errors of that rank.",
    witness=("DIST004",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
