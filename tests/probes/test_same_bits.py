"""The promise: the same losses, weights, buffers, optimizer state and random states, bit for bit (OS-01 … OS-04, OS-18)."""

from __future__ import annotations

import pytest

from probes.conftest import observing
from probes.workloads import WORKLOADS, same

STEPS = 30


@pytest.mark.parametrize("budget", [0.01, None], ids=["default", "everything"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_observing_changes_no_bit(name, budget):
    bare = WORKLOADS[name](STEPS)
    with observing(budget=budget) as seen:
        watched = WORKLOADS[name](STEPS)
    for part, value in bare.items():
        assert same(value, watched[part]), part
    assert len(seen.run.series("loss/train")) >= STEPS // 4


def test_two_bare_runs_are_equal_so_that_the_test_above_means_something():
    a, b = WORKLOADS["cnn"](12), WORKLOADS["cnn"](12)
    assert all(same(a[part], b[part]) for part in a)
