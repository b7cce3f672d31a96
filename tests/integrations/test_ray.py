"""Runs are diagnosed on a local Ray as they are here."""

from __future__ import annotations

import numpy as np
import pytest

from traindx.diagnosis import diagnose, many
from traindx.errors import EnvironmentFault
from traindx.report import json as report
from traindx.run import Run

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]


def _runs(n: int) -> list[Run]:
    steps = np.arange(120)
    noise = np.random.default_rng(0).standard_normal((n, 120))
    return [
        Run.of({"loss/train": (np.exp(-steps / 50) + 0.02 * own).tolist()}, source=f"run-{i}") for i, own in enumerate(noise)
    ]


def test_without_a_cluster_it_says_how_to_start_one() -> None:
    with pytest.raises(EnvironmentFault, match="ray start --head"):
        many.diagnose_all(_runs(1), on="ray")


def test_the_results_are_those_of_the_serial_way() -> None:
    import ray

    runs = _runs(20)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert report.render(many.diagnose_all(runs, on="ray")) == report.render([diagnose(run) for run in runs])
    finally:
        ray.shutdown()
