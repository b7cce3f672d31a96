"""A process group around gloo's that counts every call, whoever makes it: `init_process_group("counting")`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

CALLS: Counter[str] = Counter()
NAMES = (
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "barrier", "monitored_barrier", "allgather", "_allgather_base",
    "allgather_coalesced", "allgather_into_tensor_coalesced", "reduce_scatter", "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced", "gather", "scatter", "alltoall", "alltoall_base", "send", "recv", "recv_anysource",
)  # fmt: skip


class Counting(dist.ProcessGroup):
    """Hands every collective on to the group inside."""

    def __init__(self, inner: Any, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.inner = inner

    def getBackendName(self) -> str:
        return "counting"

    def __repr__(self) -> str:
        return "counting"


def _counted(name: str) -> Callable[..., Any]:
    def call(self: Counting, *args: Any, **kwargs: Any) -> Any:
        CALLS[name] += 1
        return getattr(self.inner, name)(*args, **kwargs)

    return call


for each in NAMES:
    setattr(Counting, each, _counted(each))


def _make(store: Any, rank: int, size: int, timeout: Any) -> Counting:
    return Counting(dist.ProcessGroupGloo(store, rank, size, timeout), rank, size)


dist.Backend.register_backend("counting", _make, devices=["cpu"])
