"""Programs that would never end: watched until their record says enough, then ended with everything they started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from traindx import record
from traindx.run import Run


@contextmanager
def endless(words: list[str], **environment: str) -> Iterator[None]:
    """The program, in a group of its own, for as long as the block lasts."""
    own = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    child = subprocess.Popen(words, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        for process in {child.pid, *_below(child.pid)}:  # a launcher gives each of its ranks a session, too
            _end(process)
        child.wait()


def _below(parent: int) -> set[int]:
    import psutil

    try:
        return {p.pid for p in psutil.Process(parent).children(recursive=True)}
    except psutil.Error:
        return set()


def _end(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has gone already


def watched(folder: Path, enough: Callable[[Run], bool], most_s: float = 300.0) -> Run:
    """The record, once it says enough; however slow the machine is."""
    end = time.monotonic() + most_s
    while time.monotonic() < end:
        if record.is_record(folder):
            run = record.read(folder)
            if enough(run):
                return run
        time.sleep(1.0)
    pytest.fail(f"{folder} did not say enough within {most_s:.0f} s")
