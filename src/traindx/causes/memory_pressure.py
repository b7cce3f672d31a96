"""The device's memory is full or fragmented."""

from traindx.cause import Cause

memory_pressure = Cause(
    name="memory-pressure",
    title="memory ran out, is nearly full or fragmented",
    likely={
        "PERF003": 0.95,
    },
    prior=0.5,
    verdict="fix-and-resume",
    cure=(
        "Halve the micro-batch and accumulate twice, use activation checkpointing, make batches of even length, or "
        "set `expandable_segments:True`."
    ),
    refutes=("PERF002:graph",),
    witness=("PERF003",),
)
