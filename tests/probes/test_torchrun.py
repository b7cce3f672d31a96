"""The launcher's command line is taken apart as the launcher does, and loaders give the batches of absent processes."""

from __future__ import annotations

import doctest
import itertools
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from traindx.errors import UsageError
from traindx.probes.drive.recorder import Recorder
from traindx.probes.launch import other_ranks, torchrun
from traindx.probes.launch.attach import attach, detach
from traindx.probes.read.machine import replicas
from traindx.record import endings


def test_script_and_module_are_found_behind_the_launchers_options() -> None:
    found = torchrun.parsed(["--nproc-per-node", "4", "--master-port=29500", "train.py", "--lr", "0.1", "-m", "x"])
    assert found.program == ("train.py", "--lr", "0.1", "-m", "x") and found.nproc == 4
    module = torchrun.parsed(["--standalone", "-m", "pkg.train", "--nproc-per-node", "9"])
    assert (module.options, module.program) == (("--standalone", "-m"), ("pkg.train", "--nproc-per-node", "9"))


def test_the_same_launch_on_fewer_processes() -> None:
    words = torchrun.parsed(["--nproc-per-node=2", "train.py", "7"]).words(1)
    assert words[4:] == ["--nproc-per-node=2", "--nproc-per-node=1", "train.py", "7"]  # the later one counts
    assert torchrun.parsed(words[4:]).nproc == 1


def test_a_launch_that_cannot_be_observed_is_refused() -> None:
    with pytest.raises(UsageError, match="does not understand"):
        torchrun.parsed(["--no-such-option", "train.py"])


def test_batches_grow_only_where_data_is_dealt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(torchrun.TIMES, "3")
    original: Any = DataLoader.__init__
    torchrun.larger_batches()
    observer = attach(Recorder())
    try:
        data = TensorDataset(torch.zeros(24))
        assert DataLoader(data, batch_size=4, shuffle=True).batch_size == 12
        assert DataLoader(data, 4, True).batch_size == 12
        assert DataLoader(data, batch_size=4).batch_size == 4
    finally:
        detach(observer)
    assert DataLoader.__init__ is original


def test_ranks_compare_at_one_step_of_every_block_and_at_no_fixed_stride() -> None:
    assert doctest.testmod(replicas).failed == 0
    steps = [s for s in range(1000) if replicas.due(s)]
    gaps = [b - a for a, b in itertools.pairwise(steps)]
    assert max(gaps) < 40 and len(set(gaps[4:])) > 1
    assert all({s % m for s in steps} == set(range(m)) for m in (2, 3, 4, 5, 8))  # accumulation cannot hide from it


def test_a_launchers_word_about_failed_ranks_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"rank": 1, "exitcode": -9, "time": 70}
    endings.note(tmp_path / "new", [failure])
    assert endings.launches(tmp_path / "new") == {"failed": {"1": {"exitcode": -9, "time": 70.0}}, "first": 1}
    endings.note(Path("/proc/no-such-place"), [failure])
    assert "was not kept" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux lets a sibling look")
def test_a_rank_sees_with_which_signal_another_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    with subprocess.Popen(["sleep", "60"]) as killed, subprocess.Popen(["true"]) as fine:
        watcher = other_ranks.Siblings(tmp_path, {killed.pid: 1, fine.pid: 2})
        watcher.start()
        killed.kill()
        watcher.join(20)  # nobody has reaped them yet
    assert endings.launches(tmp_path)["failed"].keys() == {"1"}
    assert endings.launches(tmp_path)["failed"]["1"]["exitcode"] == -9
    assert other_ranks.status(os.getpid()) is None
    assert other_ranks.ranks_beside() == {}


def test_nobody_is_watched_without_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_ranks, "ranks_beside", lambda: pytest.fail("looked"))
    run, place = "TORCHELASTIC_RUN_ID", "LOCAL_RANK"
    for told in ({place: "0"}, {run: "one", place: "7"}):
        for name in (run, place):
            monkeypatch.delenv(name, raising=False)
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        assert other_ranks.follow(tmp_path) is None
