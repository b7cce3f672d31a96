"""The host waits for the device in every step."""

from traindx.cause import Cause

host_syncs = Cause(
    name="host-syncs",
    title="the host waits for the device in every step",
    likely={
        "PERF004": 0.95,
        "PERF005": 0.3,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Log every 50 steps, keep sums on the device, and avoid Python conditions on tensors.",
    witness=("PERF004",),
)
