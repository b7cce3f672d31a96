"""Many runs are diagnosed in processes, with the same result as one by one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from traindx.diagnosis import diagnose, many
from traindx.errors import EnvironmentFault, UsageError
from traindx.report import json as report
from traindx.run import Run


def _runs(n: int) -> list[Run]:
    steps = np.arange(120)
    made = []
    for i in range(n):
        noise = np.random.default_rng(i).standard_normal(120)
        loss = np.exp(steps / 40) if i % 5 == 4 else np.exp(-steps / 50)
        made.append(Run.of({"loss/train": (loss + 0.02 * noise).tolist()}, source=f"run-{i}"))
    return made


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `traindx diagnose`, which knows no torch: this process may have loaded it for other tests."""
    monkeypatch.setattr(many, "_may_fork", lambda: True)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_results_are_those_of_the_serial_way(forking: None) -> None:
    runs = _runs(18)
    together = many.diagnose_all(runs, jobs=2)
    assert [d.run for d in together] == runs
    assert report.render(together) == report.render([diagnose(run) for run in runs])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_worker_that_dies_costs_nothing_but_time(forking: None, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()

    def deadly(original: Callable[..., object]) -> Callable[..., object]:
        return lambda *args: original(*args) if os.getpid() == parent else os._exit(9)

    monkeypatch.setattr(many, "diagnose", deadly(diagnose))
    assert len(many.diagnose_all(_runs(16), jobs=2)) == 16


def test_a_few_runs_are_not_worth_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "ProcessPoolExecutor", lambda *args, **given: pytest.fail("forked"))
    assert len(many.diagnose_all(_runs(3))) == 3


def test_ray_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EnvironmentFault, match=r"traindx\[ray\]"):
        many.diagnose_all(_runs(1), on="ray")
    with pytest.raises(UsageError, match="not on 'moon'"):
        many.diagnose_all(_runs(1), on="moon")


def test_a_cluster_that_lets_us_not_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**given: object) -> None:
        raise ConnectionError("Failed to connect\nand much more")

    fake = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setenv("RAY_ADDRESS", "far:6379")
    with pytest.raises(EnvironmentFault, match=r"far:6379 cannot be reached: Failed to connect; .*RAY_AUTH_TOKEN"):
        many.cluster()
    monkeypatch.delenv("RAY_ADDRESS")
    with pytest.raises(EnvironmentFault, match="ray start --head"):
        many.cluster()
