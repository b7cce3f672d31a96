"""Many trials at once: the product of what is asked, in its order, with the answers of the serial way."""

from __future__ import annotations

import doctest
import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from traindx.cli.sweep import command
from traindx.errors import NothingReadable, UsageError
from traindx.trials import many

TASK = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from traindx import Task

def make():
    torch.manual_seed(0)
    x = torch.randn(128, 8)
    net = torch.nn.Linear(8, 2)
    data = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=32, shuffle=True)
    return Task(net, torch.nn.functional.cross_entropy, data, None, torch.optim.Adam(net.parameters(), lr=1e-2))
"""


def asked(*words: str) -> Any:
    return CliRunner().invoke(command, list(words), catch_exceptions=True)


def test_every_combination_is_one_job_with_a_place_of_its_own() -> None:
    assert doctest.testmod(many).failed == 0
    made = many.jobs(["overfit", "lr-range"], ["a.py:f", "b.py:f"], {"steps": ["1", "2"]}, {"samples": "4"})
    assert len(made) == 8 and len({j.home for j in made}) == 8
    assert made[1].words()[4:] == (
        ["trial", "overfit", "a.py:f", "--format", "json", "-q", "--set", "samples=4", "--set", "steps=2"]
    )


def test_the_order_is_that_of_the_jobs_whoever_is_first() -> None:
    def one(job: many.Job) -> dict[str, Any]:
        time.sleep(0.05 if job.target == "a" else 0.0)
        return {"target": job.target}

    given = [many.Job("overfit", t) for t in "abc"]
    assert [r["target"] for r in many.run_all(given, workers=3, one=one)] == ["a", "b", "c"]
    with pytest.raises(UsageError, match="not on 'moon'"):
        list(many.run_all(given, on="moon"))


def test_what_cannot_be_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "run_all", lambda *a, **k: pytest.fail("ran"))
    assert "no trial 'overfitt'" in str(asked("overfitt", "a.py").exception)
    assert "has no limit 'seed'" in str(asked("overfit", "a.py", "--over", "seed=1,2").exception)
    assert "needs KEY=VALUE" in str(asked("overfit", "a.py", "--set", "steps").exception)


def test_results_are_told_one_by_one_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run_all(given: list[many.Job], **how: Any) -> Any:
        for job in given:
            limits = dict(job.limits)
            yield {"trial": job.trial, "target": job.target, "limits": limits, "result": "pass", "reason": "[learns]"}

    monkeypatch.setattr(many, "run_all", run_all)
    done = asked("overfit", "a.py", "b.py", "--over", "steps=5,9", "-o", str(tmp_path / "x.json"))
    assert done.exit_code == 0 and "4 of 4: overfit steps=9 on b.py: pass" in done.output and "[learns]" in done.output
    kept = json.loads((tmp_path / "x.json").read_text())
    assert kept["schema"] == "traindx.trials/1" and [t["limits"]["steps"] for t in kept["trials"]] == ["5", "9", "5", "9"]


def test_when_nothing_could_be_run_that_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"trial": "overfit", "target": "a", "limits": {}, "result": "failed", "reason": "no such file"}
    monkeypatch.setattr(many, "run_all", lambda *a, **k: iter([failed]))
    assert isinstance(asked("overfit", "a").exception, NothingReadable)


@pytest.mark.slow
def test_the_answers_are_those_of_the_serial_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.py").write_text(TASK)
    given = many.jobs(["overfit", "loss-at-init"], ["task.py:make", "nowhere.py:make"], {})
    serial, beside = list(many.run_all(given, workers=1)), list(many.run_all(given, workers=2))
    keys = ("trial", "target", "result", "answer", "reason")
    assert [[r.get(k) for k in keys] for r in serial] == [[r.get(k) for k in keys] for r in beside]
    assert [r["result"] == "failed" for r in serial] == [False, False, True, True]
