"""kill -9 at any moment: at most the last second is lost, nothing before it, nothing wrong."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from traindx.errors import NothingReadable
from traindx.record import read, read_ranks
from traindx.run import Run

VICTIM = Path(__file__).with_name("killed.py")


def killed_after(path: Path, seconds: float, first: int, pause: float) -> tuple[list[int], list[float], float]:
    """Let a process record, kill it; the steps it says it handed over, when, and the moment from which they may be lost."""
    command = [sys.executable, str(VICTIM), str(path), str(first), str(pause)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        assert victim.stderr is not None
        head = victim.stdout.readline()  # it is up and recording
        time.sleep(seconds)
        victim.send_signal(signal.SIGKILL)
        died = time.monotonic()
        lines = (head + victim.stdout.read()).decode().splitlines()
        assert victim.stderr.read() == b""
    said = [line.split() for line in lines if len(line.split()) == 3]
    late = 2 * float(said[-1][2])  # a busy machine wakes the writer as late as it does others, and so it does the disk
    return [int(s) for s, _, _ in said], [float(t) for _, t, _ in said], died - 1.0 - late


def judge(run: Run, steps: list[int], times: list[float], safe: float) -> None:
    losses = run.series("loss/train")
    last = int(losses.steps[-1]) if len(losses) else steps[0] - 1
    lost = [t for s, t in zip(steps, times) if s > last]
    assert not lost or min(lost) >= safe, f"lost {safe - min(lost):.2f} s more than it may"
    own = losses.between(lo=steps[0])
    assert np.array_equal(own.values, own.steps)  # nothing wrong
    assert len(np.unique(own.steps)) == len(own)  # nothing doubled
    assert not any("lost" in note or "damaged" in note for note in run.notes), run.notes  # a prefix without holes


def chain(path: Path, kills: int, seed: int, longest: float) -> None:
    """Kill and resume again and again, going back some steps each time."""
    rng = random.Random(seed)
    first = 0
    for k in range(kills):
        pause = rng.choice([0.0, 0.0005, 0.005, 0.05])
        steps, times, safe = killed_after(path, rng.uniform(0.0, longest), first, pause)
        try:
            run = read(path)
        except NothingReadable:  # killed before the first batch
            assert not k
            assert times[0] >= safe
            continue
        judge(run, steps, times, safe)
        assert len(run.events_of("resume")) <= k
        first = max(0, steps[-1] - rng.randrange(100))
    assert list(read_ranks(path)) == [0]


def test_a_few_kills_lose_at_most_a_second(tmp_path: Path) -> None:
    for seed in range(4):
        chain(tmp_path / str(seed), 5, seed, longest=1.2)


@pytest.mark.slow
def test_two_hundred_kills_lose_at_most_a_second(tmp_path: Path) -> None:
    for seed in range(20):
        chain(tmp_path / str(seed), 10, 100 + seed, longest=3.0)


def test_a_killed_run_says_so_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_after(tmp_path / "run", 0.8, 0, 0.005)
    assert read(tmp_path / "run").facts["ended"] == "killed"  # the process is seen to be gone
    monkeypatch.setattr("traindx.record.alive.here", lambda: "another machine")
    assert read(tmp_path / "run").facts["ended"] == "running"
    monkeypatch.setattr("traindx.record.process.ALIVE_S", 0.0)
    run = read(tmp_path / "run")
    assert run.facts["ended"] == "killed"
    assert run.facts["script"] == "killed.py"
