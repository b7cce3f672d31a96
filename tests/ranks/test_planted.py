"""Ranks over gloo: planted faults are found, healthy ranks are left alone, and nothing of ours is ever communicated."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ranks.endless import endless, watched
from traindx import record
from traindx.diagnosis import diagnose
from traindx.run import Run
from traindx.settings import Settings

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
FEW = ["same-data", "around", "lone-nan", "own-statistics"]
MORE = ["no-set-epoch", "no-sync", "no-wrapper", "drift", "straggler", "uneven-tokens"]
EXPECTED = {
    "same-data": "DIST002",
    "no-set-epoch": "DIST002",
    "around": "DIST003",
    "no-sync": "DIST003",
    "no-wrapper": "DIST001",
    "drift": "DIST001",
    "straggler": "DIST004",
    "uneven-tokens": "DIST006",
    "lone-nan": "DATA001",
    "own-statistics": "DIST001",
}


def torchrun(words: list[str], timeout: float = 900, ranks: int = 2, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in so many ranks."""
    own = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    launch = [*TORCHRUN, "--nproc-per-node", str(ranks), "--master-port", _free_port(), *words]
    return subprocess.run(launch, env=own, capture_output=True, text=True, timeout=timeout, check=False)


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def found(run: Run) -> list[str]:
    """Codes of the findings about ranks, at warning or above."""
    return [f.code for f in diagnose(run, Settings(select=("DIST", "DATA001"))).findings if f.severity.value != "info"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a healthy run and of a few sick ones."""
    folder = tmp_path_factory.mktemp("ranks")
    done = torchrun([str(HERE / "worker.py"), str(folder), *FEW])
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_the_bits_are_the_same_and_no_collective_is_ours(trained: Path) -> None:
    compared = json.loads((trained / "compared.json").read_text())
    bare, observed = compared["collectives"]
    assert compared["same"] and bare == observed > 50


def test_healthy_ranks_with_different_losses_are_not_accused(trained: Path) -> None:
    run = record.read(trained / "healthy")
    assert (run.matrix("rank/loss").values[:, 0] != run.matrix("rank/loss").values[:, 1]).all()
    assert (run.fact("world_size"), run.fact("distributed")) == (2, "ddp")
    assert len(run.matrix("rank/params")) >= 5 and found(run) == []


@pytest.mark.slow
def test_four_ranks_keep_their_bits_are_not_accused_and_every_planted_fault_is_found(tmp_path: Path) -> None:
    done = torchrun([str(HERE / "worker.py"), str(tmp_path), *EXPECTED], 900, ranks=4)
    assert done.returncode == 0, done.stderr[-3000:]
    compared = json.loads((tmp_path / "compared.json").read_text())
    assert compared["same"] and compared["collectives"][0] == compared["collectives"][1] > 50
    healthy = record.read(tmp_path / "healthy")
    assert healthy.matrix("rank/loss").values.shape[1] == 4 and np.ptp(healthy.matrix("rank/loss").values, axis=1).min() > 0
    assert found(healthy) == []
    assert {fault: EXPECTED[fault] in found(record.read(tmp_path / fault)) for fault in EXPECTED} == dict.fromkeys(
        EXPECTED, True
    )
    alone = {"straggler": 3, "drift": 1, "lone-nan": 1}
    named = {
        fault: [f.rank for f in diagnose(record.read(tmp_path / fault)).findings if f.code == EXPECTED[fault]]
        for fault in alone
    }
    assert named == {fault: [rank] for fault, rank in alone.items()}


@pytest.mark.parametrize("fault", FEW)
def test_a_planted_fault_is_found(fault: str, trained: Path) -> None:
    assert EXPECTED[fault] in found(record.read(trained / fault))


def test_the_batch_of_the_lone_rank_is_to_blame(trained: Path) -> None:
    run = record.read(trained / "lone-nan")
    assert (run.fact("origin")["blame"], run.fact("origin")["sample"]) == ("batch", 3)
    assert {e.data["rank"] for e in run.events_of("nonfinite") if e.data["what"] == "loss"} >= {1}
    assert "DIST007" not in found(run) and [f.rank for f in diagnose(run).findings if f.code == "DATA001"] == [1]
    assert "device" not in diagnose(run).summary


@pytest.mark.slow
def test_every_planted_fault_is_found(tmp_path: Path) -> None:
    done = torchrun([str(HERE / "worker.py"), str(tmp_path), *MORE])
    assert done.returncode == 0, done.stderr[-3000:]
    assert {fault: EXPECTED[fault] in found(record.read(tmp_path / fault)) for fault in MORE} == dict.fromkeys(MORE, True)


@pytest.mark.slow
def test_state_that_is_sharded_and_weights_that_are_averaged_now_and_then_are_no_faults(tmp_path: Path) -> None:
    done = torchrun([str(HERE / "worker.py"), str(tmp_path), "zero", "local-sgd"])
    assert done.returncode == 0, done.stderr[-3000:]
    zero, local = (record.read(tmp_path / kind) for kind in ("zero", "local-sgd"))
    assert (zero.steps, len(zero.matrix("rank/loss"))) == ((0, 79), 80)
    assert len(zero.matrix("rank/params")) >= 5 and found(zero) == found(local) == []
    assert {f.variant for f in diagnose(local, Settings(select=("DIST", "DATA001"))).findings} == {"meet"}


@pytest.mark.slow
def test_a_rank_that_is_killed_is_reported_and_the_others_end_as_without_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = str(HERE / "program.py")
    bare = torchrun([program, "killed", "80"])
    done = torchrun(["-m", "traindx", "run", "--dir", str(tmp_path / "r"), "-q", program, "killed", "80"])
    assert (done.returncode != 0) and (bare.returncode != 0)
    monkeypatch.setattr("traindx.record.process.ALIVE_S", 0.0)  # as if we looked a minute later
    run = record.read(tmp_path / "r")
    assert run.fact("ranks")["1"]["ended"] == "killed"
    if hasattr(os, "pidfd_open"):  # rank 0 has looked, since nobody above tells
        assert [e.data["why"] for e in run.events_of("rank_lost")] == ["was ended by SIGKILL"]


@pytest.mark.slow
def test_a_rank_that_is_stuck_says_where(tmp_path: Path) -> None:
    words = ["--standalone", "--nproc-per-node", "2", "-m", "traindx", "run", "--dir", str(tmp_path / "r"), "-q"]
    program = [*words, str(HERE / "program.py"), "hang", "40"]
    with endless([*TORCHRUN, *program], TRAINDX_HANG_SECONDS="3"):
        run = watched(tmp_path / "r", lambda run: {e.data["rank"] for e in run.events_of("hang")} == {0, 1})
    hangs = {e.data["rank"]: e.data["stack"] for e in run.events_of("hang")}
    assert set(hangs) == {0, 1}
    assert "time.sleep" in hangs[1] and "backward" in hangs[0]
    assert "DIST005" in found(run)


@pytest.mark.slow
def test_ranks_without_disk_train_on() -> None:
    done = torchrun(["-m", "traindx", "run", "--dir", "/proc/no-such-place", "-q", str(HERE / "program.py"), "healthy", "30"])
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_the_same_launch_on_one_process_is_compared(tmp_path: Path) -> None:
    words = ["run", "--dir", str(tmp_path / "r"), "--nproc", "1", "--select", "DIST", "-m", "torch.distributed.run"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "traindx",
            *words,
            "--nproc-per-node",
            "2",
            "--standalone",
            str(HERE / "program.py"),
            "healthy",
            "60",
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Does it happen on one process with the same global batch?" in done.stderr
    assert "the losses agree over 60 steps" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", ["spawn", "start", "one-by-one"])
def test_processes_that_a_script_starts_are_observed(how: str, tmp_path: Path) -> None:
    words = ["run", "--dir", str(tmp_path / "r"), "--select", "DIST", str(HERE / "program.py")]
    words += ["around", "40", _free_port(), how]
    own = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "traindx", *words], env=own, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    run = record.read(tmp_path / "r")
    assert run.fact("world_size") == 2 and len(run.matrix("rank/loss").names) == 2
    assert "DIST003" in found(run) and "DIST003" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("launch", ["torchrun", "spawn"])
def test_ranks_that_watch_themselves_make_one_record(launch: str, tmp_path: Path) -> None:
    program, own = str(HERE / "program.py"), {"WATCH": str(tmp_path / "r")}
    if launch == "torchrun":
        done = torchrun([program, "around", "40"], **own)
    else:
        alone = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")} | {"OMP_NUM_THREADS": "1"} | own
        words = [sys.executable, program, "around", "40", _free_port()]
        done = subprocess.run(words, env=alone, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    run = record.read(tmp_path / "r")
    assert run.fact("world_size") == 2 and run.matrix("rank/loss").values.shape == (40, 2)
    assert "DIST003" in found(run)
