"""Graphs or tensors are kept alive."""

from traindx.cause import Cause

memory_leak = Cause(
    name="memory-leak",
    title="something keeps tensors or graphs alive",
    likely={
        "PERF002": 0.95,
        "PERF002:graph": 0.6,
        "PERF007": 0.4,
        "PERF003": 0.3,
        "EVAL009:grad": 0.2,
    },
    prior=0.8,
    verdict="fix-and-resume",
    cure="Keep numbers, not tensors: call `.item()` or `.detach()` on what you collect[[ ({where})]].",
    witness=("PERF002",),
)
