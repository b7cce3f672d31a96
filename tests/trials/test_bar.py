"""How right the trials must be, on the tasks of the bench: long, so not in the usual suite."""

from __future__ import annotations

import pytest
from bench import trials as bench


@pytest.mark.slow
def test_learning_rates_lie_near_the_best_of_a_grid_and_are_refused_on_shuffled_labels() -> None:
    found = bench.learning_rates()
    ratios = [c["ratio"] for c in found["cells"] if c["ratio"] is not None]
    assert found["within"] >= 20 and max(ratios) <= 2.0, ratios
    assert set(found["shuffled_labels"]) == {"refused"}


@pytest.mark.slow
def test_every_planted_fault_is_found_and_every_healthy_task_passes() -> None:
    found = bench.overfitting()
    assert found["faults"] >= 30 and found["faults_found"] == found["faults"]
    assert found["healthy"] >= 30 and found["healthy_passed"] == found["healthy"]


@pytest.mark.slow
def test_the_noise_scale_is_near_the_truth() -> None:
    assert bench.noise_scales()["worst"] < 0.25
