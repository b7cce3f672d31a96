"""The launcher's command line is taken apart as the launcher does, and loaders give the batches of absent processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from traindx.errors import UsageError
from traindx.probes import torchrun


def test_script_and_module_are_found_behind_the_launchers_options() -> None:
    found = torchrun.parsed(["--nproc-per-node", "4", "--master-port=29500", "train.py", "--lr", "0.1", "-m", "x"])
    assert found.program == ("train.py", "--lr", "0.1", "-m", "x") and found.nproc == 4
    module = torchrun.parsed(["--standalone", "-m", "pkg.train", "--nproc-per-node", "9"])
    assert (module.options, module.program) == (("--standalone",), ("-m", "pkg.train", "--nproc-per-node", "9"))


def test_every_rank_runs_under_traindx(tmp_path: Path) -> None:
    words = torchrun.parsed(["--nproc-per-node=2", "train.py", "7"]).words(tmp_path, ["--budget", "none"], 1)
    at = words.index("--nproc-per-node=1")
    assert words[at - 1] == "--nproc-per-node=2"  # the later one counts
    assert words[at + 1 :] == ["-m", "traindx", "run", "--dir", str(tmp_path), "--budget", "none", "train.py", "7"]
    assert torchrun.parsed(words[4:]).nproc == 1


def test_a_launch_that_cannot_be_observed_is_refused() -> None:
    with pytest.raises(UsageError, match="--no-python"):
        torchrun.parsed(["--no-python", "train.sh"])
    with pytest.raises(UsageError, match="does not understand"):
        torchrun.parsed(["--no-such-option", "train.py"])


def test_batches_grow_only_where_data_is_dealt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(torchrun.TIMES, "3")
    original: Any = DataLoader.__init__
    try:
        torchrun.larger_batches()
        data = TensorDataset(torch.zeros(24))
        assert DataLoader(data, batch_size=4, shuffle=True).batch_size == 12
        assert DataLoader(data, 4, True).batch_size == 12
        assert DataLoader(data, batch_size=4).batch_size == 4
    finally:
        DataLoader.__init__ = original  # type: ignore[method-assign]
