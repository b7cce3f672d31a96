"""States that a checkpoint brought and nobody restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from probes.watched import watched
from traindx.probes.read.machine.unrestored import Resumes


def training(path: Path, load: tuple[str, ...] = (), read: bool = True) -> None:
    """A few updates with Adam and a schedule, from a file of which these parts are loaded."""
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    if path.exists() and read:
        state = torch.load(path, weights_only=False)
        for name in load:
            parts[name].load_state_dict(state[name])
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).pow(2).mean().backward()
        optimizer.step()
        scheduler.step()
    torch.save({name: part.state_dict() for name, part in parts.items()}, path)


@pytest.mark.parametrize(
    ("load", "left"),
    [
        (("model", "optimizer", "scheduler"), None),
        (("model", "scheduler"), ["optimizer"]),
        (("model", "optimizer"), ["scheduler"]),
        (("model",), ["optimizer", "scheduler"]),
        ((), None),  # another file was read for another end
    ],
)
def test_what_is_left_of_a_checkpoint(load: tuple[str, ...], left: list[str] | None, tmp_path: Path) -> None:
    training(tmp_path / "ck.pt")
    run = watched(lambda: training(tmp_path / "ck.pt", load), Resumes())
    assert (run.fact("resume.left") or {}).get("left") == left
    if left:
        assert run.fact("resume.left")["same_schedule"] is True


def test_a_training_that_read_nothing_has_left_nothing(tmp_path: Path) -> None:
    assert watched(lambda: training(tmp_path / "ck.pt"), Resumes()).fact("resume.left") is None
