"""The device's memory is full or fragmented."""

from traindx.cause import Cause

memory_pressure = Cause(
    name="memory-pressure",
    title="memory is nearly full or fragmented",
    likely={
        "PERF003": 0.95,
    },
    prior=0.5,
    verdict="fix-and-resume",
    cure="Half the micro-batch with twice the accumulation, activation checkpointing, even lengths, expandable_segments:True.",
    refutes=("PERF002:graph",),
    witness=("PERF003",),
)
