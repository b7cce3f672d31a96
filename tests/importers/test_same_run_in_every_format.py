"""The same run saved in every format gives the same signals, and so the same findings (MR-21)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.importers import writers as w

from traindx import importers
from traindx.diagnosis import diagnose
from traindx.run import Run

# digits that a format keeps: event files hold float32, the Megatron line seven digits, the bar four of the learning rate
ROUGH = {"lr": {"bar_text": 1e-3}}


def read_one(source: object) -> Run:
    [run] = importers.read(source)
    return run


@pytest.fixture(params=list(w.FORMATS))
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Run]:
    return request.param, read_one(w.FORMATS[request.param](tmp_path))


@pytest.mark.parametrize("signal", ["loss/train", "loss/val", "lr", "grad_norm"])
def test_signals_are_those_of_the_known_run(written: tuple[str, Run], signal: str) -> None:
    name, run = written
    truth = {
        "loss/train": (w.STEPS, w.TRAIN),
        "loss/val": (w.VAL_AT, w.VAL),
        "lr": (w.STEPS, w.LR),
        "grad_norm": (w.STEPS, w.NORM),
    }
    steps, values = truth[signal]
    assert signal in run, f"{name}: {sorted(run.signals)} {run.notes}"
    assert run[signal].steps.tolist() == steps.tolist()
    np.testing.assert_allclose(run[signal].values, values, rtol=ROUGH.get(signal, {}).get(name, 2e-6), atol=1e-9)


def test_every_column_is_accounted_for(written: tuple[str, Run]) -> None:
    name, run = written
    assert "loss/train" in run.fact("columns").values(), name
    assert run.fact("step_unit") == "step"


def test_findings_are_the_same(written: tuple[str, Run], tmp_path_factory: pytest.TempPathFactory) -> None:
    _, run = written
    reference = read_one(w.plain_csv(tmp_path_factory.mktemp("reference")))
    keep = ("loss/train", "loss/val", "lr", "grad_norm")
    codes = [
        {(f.code, f.severity) for f in diagnose(Run({k: r[k] for k in keep}, {"step_unit": "step"})).findings}
        for r in (run, reference)
    ]
    assert codes[0] == codes[1]
