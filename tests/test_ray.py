"""Against a Ray that runs on this machine: the results are those of the serial way. Skipped where Ray is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traindx.diagnosis import diagnose, many
from traindx.errors import EnvironmentFault
from traindx.report import json as report
from traindx.run import Run

ray: Any = pytest.importorskip("ray")
pytestmark = pytest.mark.slow


def test_without_a_cluster_it_is_said_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(EnvironmentFault, match="ray start --head"):
        many.cluster()


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def test_many_runs_are_judged_as_here(cluster: None) -> None:
    steps = np.arange(120)
    runs = []
    for i in range(20):
        loss = np.exp(steps / 40) if i % 5 == 4 else np.exp(-steps / 50)
        noise = np.random.default_rng(i).standard_normal(120)
        runs.append(Run.of({"loss/train": (loss + 0.02 * noise).tolist()}, source=f"run-{i}"))
    there = many.diagnose_all(runs, on="ray")
    assert [d.run for d in there] == runs
    assert report.render(there) == report.render([diagnose(run) for run in runs])


def test_trials_are_run_as_here(cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traindx.trials import many as trials
    from trials.test_many_trials import TASK

    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.py").write_text(TASK)
    given = trials.jobs(["overfit", "loss-at-init"], ["task.py:make"], {})
    here, there = list(trials.run_all(given, workers=1)), list(trials.run_all(given, on="ray"))
    assert [(r["result"], r["answer"]) for r in here] == [(r["result"], r["answer"]) for r in there]
