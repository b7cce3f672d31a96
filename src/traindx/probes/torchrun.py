"""`traindx run -m torch.distributed.run …`: the launcher is started as it is, each of its ranks observes itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx.children import main_file, ours
from traindx.errors import UsageError

LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
TOLD_ABOVE = "TRAINDX_TOLD_ABOVE"  # set for the ranks: the process that launched them prints the page
TIMES = "TRAINDX_BATCH_TIMES"  # set for a launch with fewer processes: loaders give so many times larger batches


@dataclass(frozen=True)
class Launch:
    """A launcher's command line, taken apart."""

    options: tuple[str, ...]  # of the launcher, without -m
    program: tuple[str, ...]  # script or -m module, and its arguments
    nproc: int | None  # processes on this machine; None when it is not a plain number

    def words(self, folder: Path, own: Sequence[str], nproc: int | None = None) -> list[str]:
        """The command in which every rank runs under `traindx run`, writing into `folder`."""
        head = [*self.options, *([f"--nproc-per-node={nproc}"] if nproc else [])]  # the last of two counts
        inner = [main_file(), "run", "--dir", str(folder.absolute()), *own, *self.program]
        return ours("traindx.probes.elastic", str(folder.absolute()), *head, *inner)


def parsed(args: Sequence[str]) -> Launch:
    """Take the arguments of `torch.distributed.run` apart with its own parser."""
    from torch.distributed.run import get_args_parser

    try:
        found = get_args_parser().parse_args(list(args))
    except SystemExit as why:
        raise UsageError("torch.distributed.run does not understand these options") from why
    program = [found.training_script, *found.training_script_args]
    options = list(args[: len(args) - len(program)])
    if found.no_python:
        raise UsageError("ranks started with --no-python cannot be observed from outside; use traindx.watch in the program")
    if found.module:
        options = [w for w in options if w not in ("-m", "--module")]
        program = ["-m", *program]
    count = str(found.nproc_per_node)
    return Launch(tuple(options), tuple(program), int(count) if count.isdigit() else None)


def run(words: Sequence[str], times: int = 1) -> int:
    """Run the launcher to its end; gives its exit code."""
    environment = {**os.environ, TOLD_ABOVE: "1", TIMES: str(times)}
    with subprocess.Popen(list(words), env=environment) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:  # the terminal has told the launcher too: it ends its ranks, then we go on
                continue


def told_above() -> bool:
    """Whether the process that launched this rank prints the page."""
    return TOLD_ABOVE in os.environ


def larger_batches() -> None:
    """Let loaders that deal out training data give the batches of all the processes that are not there."""
    times = int(os.environ.get(TIMES, "1"))
    if times <= 1:
        return
    from torch.utils.data import DataLoader, DistributedSampler

    begin = DataLoader.__init__

    def __init__(self: Any, dataset: Any, batch_size: int | None = 1, *args: Any, **kwargs: Any) -> None:
        dealt = isinstance(kwargs.get("sampler"), DistributedSampler) or kwargs.get("shuffle") or (args and args[0])
        if dealt and batch_size and kwargs.get("batch_sampler") is None:
            batch_size *= times
        begin(self, dataset, batch_size, *args, **kwargs)

    DataLoader.__init__ = __init__
