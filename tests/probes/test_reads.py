"""Weights that were read and never loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from probes.watched import fit, watched
from traindx.probes.drive import recorder
from traindx.probes.read.model.weights_from_files import Reads
from traindx.run import Run

X, Y = torch.randn(64, 5), torch.randn(64, 1)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))


def tuned(path: Path, how: str) -> Run:
    """Train a fresh net after reading `path`, with `how` deciding what becomes of it."""

    def loop() -> None:
        state = torch.load(path)
        model = net()
        if how == "load":
            model.load_state_dict(state["weights"])
        elif how == "again":
            model.load_state_dict(state["weights"])
            model.apply(lambda m: m.reset_parameters() if isinstance(m, nn.Linear) else None)
        elif how == "noise":
            model.load_state_dict(state["weights"])
            for param in model.parameters():
                param.data = (param.data + 0.01 * torch.randn_like(param)).half().float()
        elif how == "head":
            model.load_state_dict(state["weights"])
            model[2].reset_parameters()  # type: ignore[operator]
        elif how == "copy":
            for name, param in model.named_parameters():
                param.data.copy_(state["weights"][name])
        elif how == "teacher":
            net().load_state_dict(state["weights"])
        elif how == "other":
            model = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 1))
        fit(model, nn.functional.mse_loss, X, Y)

    return watched(loop, Reads())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "net.pt"
    torch.manual_seed(7)  # the loop has seed 0: its own weights are others
    torch.save({"weights": net().state_dict(), "epoch": 3}, path)
    return path


def test_weights_that_fit_and_are_left_lying_are_told(checkpoint: Path) -> None:
    told = tuned(checkpoint, "").fact("model.read_unused")
    assert told["share"] == 1.0 and "0.weight" in told["names"]


def test_weights_that_are_initialised_after_they_were_loaded_are_told(checkpoint: Path) -> None:
    told = tuned(checkpoint, "again").fact("model.overwritten")
    assert told["share"] > 0.9 and "0.weight" in told["names"]
    assert tuned(checkpoint, "head").fact("model.overwritten")["share"] < 0.3


@pytest.mark.parametrize("how", ["load", "noise", "teacher", ""])
def test_weights_that_stay_what_they_were_are_not_overwritten(checkpoint: Path, how: str) -> None:
    assert tuned(checkpoint, how).fact("model.overwritten") is None


@pytest.mark.parametrize("how", ["load", "copy", "teacher", "other"])
def test_weights_that_are_used_or_do_not_fit_are_not(checkpoint: Path, how: str) -> None:
    assert tuned(checkpoint, how).fact("model.read_unused") is None


def test_a_second_training_is_compared_with_what_was_read_for_it(tmp_path: Path) -> None:
    def loop() -> None:
        base = net()
        fit(base, nn.functional.mse_loss, X, Y, steps=30)
        torch.save({"weights": base.state_dict()}, tmp_path / "base.pt")
        state = torch.load(tmp_path / "base.pt")
        fit(net(), nn.functional.mse_loss, X, Y, steps=30)
        assert state

    assert watched(loop, Reads()).fact("model.read_unused")["share"] == 1.0


def test_every_family_of_probes_is_asked() -> None:
    folder = Path(recorder.__file__).parent.parent / "read"
    made = {
        f"{p.parent.name}.{p.stem}"
        for p in folder.rglob("*.py")
        if re.search(r"^PROBES = ", p.read_text(encoding="utf-8"), re.M)
    }
    assert made == set(recorder.FAMILIES)
