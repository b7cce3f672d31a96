"""A profiler window on request, read into numbers; never without."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from probes.watched import fit
from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import MemorySink
from traindx.probes.launch.attach import attach, detach
from traindx.probes.read.machine.profiler_window import BEGIN, Window, summary
from traindx.run import Run


class Copying(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        for _ in range(20):
            x = x.repeat(50, 1).t().contiguous().t()[: len(x)]
        return self.lin(x)


def ran(wanted: int | None, steps: int) -> Run:
    sink = MemorySink()
    recorder = Recorder(sink, budget=None, probes=[Window()])
    if wanted:
        recorder.scene.facts["perf.window"] = wanted
    observer = attach(recorder)
    try:
        fit(Copying(), F.cross_entropy, torch.randn(64, 8), torch.randint(0, 3, (64,)), steps=steps)
    finally:
        detach(observer)
        recorder.close()
    assert not recorder.failures, recorder.failures[0].traceback
    return sink.run()


def test_a_window_counts_what_was_called() -> None:
    told = ran(5, BEGIN + 20).fact("perf.profile")
    assert told["steps"] == 5 and told["device"] == "cpu" and told["ops_per_step"] > 50
    assert 0 < told["copy_share"] <= told["busy"] <= 1 and told["h2d_share"] == 0
    assert told["top"][0]["share"] >= told["top"][-1]["share"] > 0 and told["top"][0]["op"].startswith("aten::")


class Spent(NamedTuple):
    name: str
    self_cpu_time_total: float
    device_type: Any = torch.autograd.DeviceType.CPU


def test_a_trace_is_read_as_shares_of_its_own_time() -> None:
    events = [Spent("aten::copy_", 300.0), Spent("aten::mm", 500.0), Spent("aten::mm", 100.0), Spent("Optimizer.step", 9e9)]
    told = summary(events, steps=2, wall_s=1e-3)
    assert (told["copy_share"], told["busy"], told["ops_per_step"]) == pytest.approx((0.3, 0.9, 1.5))
    assert [(t["op"], t["share"]) for t in told["top"]] == [
        ("aten::mm", pytest.approx(0.6)),
        ("aten::copy_", pytest.approx(0.3)),
    ]


def test_a_window_that_the_run_cuts_short_is_read_too() -> None:
    assert 0 < ran(100, BEGIN + 10).fact("perf.profile")["steps"] < 100


def test_nobody_profiles_unasked() -> None:
    assert ran(None, BEGIN + 10).fact("perf.profile") is None
    assert not torch.autograd.profiler._is_profiler_enabled
