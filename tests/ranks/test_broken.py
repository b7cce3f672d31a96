"""Runs that break in one rank: the training ends as without us, and the report says what happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ranks.endless import endless, watched
from traindx import record
from traindx.diagnosis import diagnose
from traindx.run import Run
from traindx.settings import Settings

pytestmark = pytest.mark.slow
PROGRAM = str(Path(__file__).parent / "program.py")
DP = """
import torch
net = torch.nn.DataParallel(torch.nn.Linear(4, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(30):
    x = torch.randn(8, 4)
    loss = torch.nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def launched(
    folder: Path | None, fault: str, steps: int, ranks: int = 2, timeout: float = 300, **more: str
) -> subprocess.CompletedProcess[str]:
    """The program under torchrun, observed when there is a folder to write into."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), PROGRAM, fault, str(steps)]
    ours = ["-m", "traindx", "run", "--select", "DIST", "--dir", str(folder)] if folder is not None else []
    own = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    return subprocess.run(
        [sys.executable, *ours, *torchrun], env=own, capture_output=True, text=True, timeout=timeout, check=False
    )


def told(run: Run) -> list[str]:
    """What is found about the ranks, at warning or above."""
    return [f.message for f in diagnose(run, Settings(select=("DIST",))).findings if f.severity.value != "info"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("killed", "rank 1 was ended by SIGKILL"),
        ("raises", "rank 1 ended with ValueError: sample 17 is broken (program.py:"),
        ("leaves", "rank 1 left while the others still waited for it"),
    ],
)
def test_the_rank_that_went_first_is_named_with_its_reason(fault: str, words: str, tmp_path: Path) -> None:
    bare, done = launched(None, fault, 120), launched(tmp_path / "r", fault, 120)
    assert done.returncode == bare.returncode != 0
    assert words in " ".join(done.stderr.split())
    assert any(words in message for message in told(record.read(tmp_path / "r")))


def test_collectives_that_do_not_meet_are_named_from_the_flight_recorder(tmp_path: Path) -> None:
    ours = ["-m", "traindx", "run", "--select", "DIST", "--dir", str(tmp_path / "r"), "-m", "torch.distributed.run"]
    words = [sys.executable, *ours, "--standalone", "--nproc-per-node", "2", PROGRAM, "extra-barrier", "60"]
    with endless(words, TRAINDX_HANG_SECONDS="3"):
        run = watched(tmp_path / "r", lambda run: any("different collectives" in m for m in told(run)))
    [message] = [m for m in told(run) if "different collectives" in m]
    assert "rank 0: all_reduce of 178 at program.py:" in message and "rank 1: barrier at program.py:" in message


def test_a_rank_that_was_stopped_for_a_minute_and_went_on_trains_the_same_and_is_told(tmp_path: Path) -> None:
    launched(None, "stopped", 120, STOPPED_S="1", WEIGHTS=str(tmp_path / "bare"))
    done = launched(tmp_path / "r", "stopped", 120, STOPPED_S="60", WEIGHTS=str(tmp_path / "observed"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert _same(tmp_path / "bare", tmp_path / "observed")
    messages = told(record.read(tmp_path / "r"))
    assert messages and all("s for rank 1 at step 60, and went on" in m for m in messages)


def test_a_rank_without_disk_trains_the_same_and_it_is_said(tmp_path: Path) -> None:
    launched(None, "no-disk", 60, WEIGHTS=str(tmp_path / "bare"))
    done = launched(tmp_path / "r", "no-disk", 60, WEIGHTS=str(tmp_path / "observed"))
    assert done.returncode == 0 and "rank 1 left no numbers" in done.stderr
    assert _same(tmp_path / "bare", tmp_path / "observed")


def test_a_launch_whose_record_cannot_be_written_keeps_its_exit_code(tmp_path: Path) -> None:
    done = launched(Path("/proc/no-such-place"), "healthy", 20)
    assert done.returncode == 0 and "no diagnosis could be made" in done.stderr


def _same(*files: Path) -> bool:
    one, other = (torch.load(file, weights_only=False) for file in files)
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("kind", "ranks"), [("fsdp2", 2), ("fsdp2", 4), ("fsdp", 2)])
def test_shards_keep_their_bits_and_their_norms_make_the_whole(kind: str, ranks: int, tmp_path: Path) -> None:
    launched(None, kind, 40, ranks, WEIGHTS=str(tmp_path / "bare"), NORMS=str(tmp_path / "norms"))
    done = launched(tmp_path / "r", kind, 40, ranks, WEIGHTS=str(tmp_path / "observed"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert _same(tmp_path / "bare", tmp_path / "observed")
    run = record.read(tmp_path / "r")
    true = np.array([float(line) for line in (tmp_path / "norms.0").read_text().splitlines()])
    norm = run.series("grad_norm")
    assert run.fact("distributed") == kind and len(norm) >= 4 and "shards" in " ".join(run.notes)
    assert np.allclose(norm.values, true[norm.steps], rtol=1e-5) and len(run.series("loss/train")) == 40
    assert told(run) == []


def test_shards_that_train_on_the_same_data_are_found(tmp_path: Path) -> None:
    assert launched(tmp_path / "r", "fsdp2-same-data", 60).returncode == 0
    assert any("train on the same batches" in message for message in told(record.read(tmp_path / "r")))


def test_ranks_under_join_are_not_accused(tmp_path: Path) -> None:
    done = launched(tmp_path / "r", "join", 120)
    assert done.returncode == 0, done.stderr[-2000:]
    run = record.read(tmp_path / "r")
    ends = {name: int(np.flatnonzero(np.isfinite(v))[-1]) for name, v in run.matrix("rank/loss").columns()}
    assert run.fact("distributed.joined") and ends["0"] != ends["1"] and told(run) == []


def test_a_restart_with_fewer_processes_accuses_nobody(tmp_path: Path) -> None:
    for ranks in (4, 2):
        assert launched(tmp_path / "r", "healthy", 60 if ranks == 4 else 90, ranks).returncode == 0
    run = record.read(tmp_path / "r")
    assert told(run) == [] and run.fact("world_size") == 2
    assert any("ranks 2, 3 took part in an earlier launch" in note for note in run.notes)


def test_data_parallel_in_one_process_is_seen(tmp_path: Path) -> None:
    script = tmp_path / "dp.py"
    script.write_text(DP)
    words = [sys.executable, "-m", "traindx", "run", "-q", "--dir", str(tmp_path / "r"), str(script)]
    assert subprocess.run(words, capture_output=True, check=False, timeout=900).returncode == 0
    run = record.read(tmp_path / "r")
    assert run.fact("distributed") == "dp" and len(run.series("loss/train")) == 30
