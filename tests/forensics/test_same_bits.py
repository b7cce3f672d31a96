"""With the witness on, every kind of loop computes the same bits."""

from __future__ import annotations

import pytest

from probes.conftest import observing
from probes.workloads import WORKLOADS, same
from traindx.forensics.arm import arm

STEPS = 6


@pytest.mark.parametrize("name", WORKLOADS)
def test_keeping_the_step_changes_no_bit(name):
    bare = WORKLOADS[name](STEPS)
    with observing() as seen:
        witness = arm(seen.recorder)
        watched = WORKLOADS[name](STEPS)
    for part, value in bare.items():
        assert same(value, watched[part]), part
    assert not witness.moment.happened
