"""`torchrun …`: its command line taken apart, and the larger batches of a launch with fewer processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx.children import ours
from traindx.errors import UsageError

LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
TIMES = "TRAINDX_BATCH_TIMES"  # set for a launch with fewer processes: loaders give so many times larger batches


@dataclass(frozen=True)
class Launch:
    """A launcher's command line, taken apart."""

    options: tuple[str, ...]  # of the launcher
    program: tuple[str, ...]  # script or module, and its arguments
    nproc: int | None  # processes on this machine; None when it is not a plain number
    name: str  # of the program

    def words(self, nproc: int | None = None) -> list[str]:
        """The command, with another number of processes where one is given: of two counts the last is taken."""
        more = [f"--nproc-per-node={nproc}"] if nproc else []
        return ours(LAUNCHERS[0], *self.options, *more, *self.program)


def parsed(args: Sequence[str]) -> Launch:
    """Take the arguments of `torch.distributed.run` apart with its own parser."""
    from torch.distributed.run import get_args_parser

    try:
        found = get_args_parser().parse_args(list(args))
    except SystemExit as why:
        raise UsageError("torch.distributed.run does not understand these options") from why
    program = [found.training_script, *found.training_script_args]
    count = str(found.nproc_per_node)
    name = found.training_script.rpartition(".")[2] if found.module else Path(program[0]).stem
    return Launch(tuple(args[: len(args) - len(program)]), tuple(program), int(count) if count.isdigit() else None, name)


def larger_batches() -> None:
    """Let loaders that deal out training data give the batches of all the processes that are not there."""
    times = int(os.environ.get(TIMES, "1"))
    if times <= 1:
        return
    from torch.utils.data import DataLoader, DistributedSampler

    from traindx.probes.drive.patches import PATCHES

    def make(begin: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, dataset: Any, batch_size: int | None = 1, *args: Any, **kwargs: Any) -> None:
            dealt = isinstance(kwargs.get("sampler"), DistributedSampler) or kwargs.get("shuffle") or (args and args[0])
            if dealt and batch_size and kwargs.get("batch_sampler") is None:
                batch_size *= times
            begin(self, dataset, batch_size, *args, **kwargs)

        return __init__

    PATCHES.replace(DataLoader, "__init__", make)
