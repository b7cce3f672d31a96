"""A profiler window in words."""

from __future__ import annotations

from typing import Any

import pytest

from runs import a_run, steady
from traindx.diagnosis import diagnose
from traindx.report import markdown
from traindx.report.profile import sentences
from traindx.report.text import plain
from traindx.run import Run

PROFILE = {
    "steps": 10,
    "device": "cpu",
    "busy": 0.95,
    "median_kernel_us": 40.0,
    "ops_per_step": 300.0,
    "copy_share": 0.02,
    "h2d_share": 0.0,
}
TOP = [{"op": "aten::mm", "share": 0.6}, {"op": "aten::add_", "share": 0.1}]


def _run(data_s: float = 0.0, **profile: Any) -> Run:
    signals = {"time/data": steady(50, data_s), "time/step": steady(50, 0.1)}
    return a_run(signals, facts={"perf.profile": {**PROFILE, "top": TOP, **profile}})


@pytest.mark.parametrize(
    ("profile", "data_s", "words"),
    [
        ({}, 0.0, "bound by computing"),
        ({"copy_share": 0.3}, 0.0, "Copies between layouts"),
        ({"h2d_share": 0.3}, 0.0, "Transfers from the host"),
        ({"busy": 0.4, "median_kernel_us": 4.0, "device": "cuda"}, 0.0, "The device waits for Python"),
        ({"busy": 0.4}, 0.0, "not what limits"),
        ({"busy": 0.4}, 0.05, "waits for data (50%"),
    ],
)
def test_says_what_limits_the_step(profile: dict[str, Any], data_s: float, words: str) -> None:
    said = sentences(_run(data_s, **profile))
    assert words in said[-1] and said[1] == "Most of it: mm 60%, add_ 10%."


def test_stands_on_the_page_that_was_asked_for_it() -> None:
    found = diagnose(_run())
    assert "10 steps under the profiler: the processor computes 95% of the time" in " ".join(plain(found).split())
    assert "bound by computing" in markdown.render([found])
    assert "under the profiler" not in plain(diagnose(a_run({"time/step": steady(50, 0.1)})))


def test_odd_facts_say_nothing() -> None:
    assert sentences(a_run(facts={"perf.profile": {"busy": "x"}})) == []
    assert len(sentences(_run(top="x"))) == 2
