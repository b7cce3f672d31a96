"""The watchdog of a rank: it speaks when no step is made, and not when nobody counts steps any more."""

from __future__ import annotations

import time

import pytest

from patience import until
from traindx.probe import Scene
from traindx.probes.read.machine.replicas import Replicas


@pytest.mark.parametrize("off", [False, True])
def test_a_rank_that_is_no_longer_observed_does_not_hang(off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "TRAINDX_HANG_SECONDS": "0.4"}.items():
        monkeypatch.setenv(name, value)
    told: list[str] = []
    scene, probe = Scene(), Replicas()
    scene._event = lambda kind, data: told.append(kind)
    probe.start(scene)
    if off:
        probe.on_event(scene, "traindx_off", {})
    if off:
        time.sleep(1.5)
    else:
        until(lambda: told)
    probe.last(scene)
    assert told == ([] if off else ["hang"])
