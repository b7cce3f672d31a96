"""Every signal has one writer, named beside it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import traindx.probes
from each import each
from probes.conftest import observing
from traindx.probes.drive.recorder import Recorder
from traindx.signals import REFINED, SIGNALS, WRITERS

PROBES = Path(traindx.probes.__file__).parent
# they hand on what others wrote, or make the rows from which a writer takes one
NOT_WRITERS = {
    "skipped": "tells in short what `updates` and `step` tell of other steps",
    "losses": "its figures are taken by `contract`",
    "foreign_optimizers": "the arguments of a foreign optimizer",
    "recorder": "what arrives late from a device",
}


def written(file: Path) -> set[str]:
    """Signals that a module writes into a reading by name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        keys = node.keys if isinstance(node, ast.Dict) else []
        targets = node.targets if isinstance(node, ast.Assign) else []
        keys = [*keys, *(t.slice for t in targets if isinstance(t, ast.Subscript))]
        names |= {k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)}
    return names & SIGNALS.keys()


def test_no_signal_is_written_by_anyone_but_its_writer() -> None:
    wrong = [
        (name, file.stem)
        for file in sorted(PROBES.rglob("*.py"))
        if file.stem not in NOT_WRITERS
        for name in written(file)
        if WRITERS.get(name) != file.stem and name not in REFINED
    ]
    assert wrong == []


@each(WRITERS)
def test_every_writer_and_every_signal_is_there(name: str) -> None:
    assert name in SIGNALS
    assert list(PROBES.parent.rglob(f"{WRITERS[name]}.py"))


def test_a_reading_from_anyone_else_is_refused() -> None:
    recorder = Recorder(probes=[])
    recorder.take({"grad_norm": 1.0}, "gradients")
    with pytest.raises(ValueError, match="grad_norm is written by gradients, not by loop"):
        recorder.take({"grad_norm": 2.0}, "loop")


@pytest.mark.parametrize("budget", [None, 0.01])
def test_the_gradient_norm_is_the_one_before_clipping_on_every_step(budget: float | None) -> None:
    """120 equal gradients, clipped each time."""
    with observing(budget=budget) as seen:
        net = nn.Linear(6, 3, bias=False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        x = torch.ones(4, 6)
        for _ in range(120):
            optimizer.zero_grad()
            (net(x).sum() * 3).backward()
            before = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        norms = seen.run.series("grad_norm")
        after = seen.run.matrix("grad_norm/param").values
    assert norms.values.tolist() == [pytest.approx(float(before))] * len(norms.values)
    assert len(norms.values) >= 20 and float(before) > 10
    assert after.max() < 1.01
