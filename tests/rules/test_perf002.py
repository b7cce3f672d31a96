"""PERF002: memory that grows with every step."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.perf002_memory_leak import memory_leak as rule
from traindx.run import Run, Series

AT = np.array([0, 50, 100, 150, 200])


def _run(facts: dict[str, Any] | None = None, **counts: Any) -> Run:
    return a_run({f"mem/{name}": Series(AT[: len(v)], v) for name, v in counts.items()}, facts=facts)


def test_a_growing_graph_names_the_line() -> None:
    growth = [{"line": "train.py:31", "kind": "graph", "per_step": 11, "holder": "total"}]
    [found] = rule.findings(_run({"memory.growth": growth}, graph_nodes=[5, 555, 1105, 1655, 2205], tensors=[80] * 5))
    assert found.variant == "graph" and found.severity is Severity.WARNING and found.confidence is Confidence.EXACT
    assert found.where == ("train.py:31",) and "11 per step" in found.message and "train.py:31" in found.fix


def test_plain_tensors_are_a_remark() -> None:
    [found] = rule.findings(_run(graph_nodes=[5] * 5, tensors=[80, 130, 180, 230, 280]))
    assert found.variant == "tensors" and found.severity is Severity.INFO


def test_steady_counts_are_clear() -> None:
    assert rule.outcome(_run(graph_nodes=[5, 7, 5, 6, 5], tensors=[80] * 5)).status is Status.CLEAR


def test_optimizer_state_of_the_first_step_is_no_slope() -> None:
    assert rule.outcome(_run(graph_nodes=[0] * 5, tensors=[10, 40, 40, 40, 40])).status is Status.CLEAR


def test_a_buffer_that_fills_up_is_no_leak() -> None:
    assert rule.outcome(_run(tensors=[10, 500, 700, 720, 721])).status is Status.CLEAR


def test_three_censuses_are_too_few() -> None:
    assert rule.outcome(_run(graph_nodes=[5])).status is Status.BLIND
    assert rule.outcome(_run(graph_nodes=[5, 55, 105, 155])).status is Status.CLEAR  # the first one does not count


def test_losses_kept_with_their_graphs_show_in_two_censuses() -> None:
    kept = a_run({"mem/graph_tensors": Series(np.array([20, 799]), np.array([22.0, 801.0]))})
    [found] = rule.findings(kept)
    assert found.variant == "held" and found.severity is Severity.WARNING and "1 per step" in found.message
    few = a_run({"mem/graph_tensors": Series(np.array([20, 799]), np.array([22.0, 40.0]))})
    assert rule.outcome(few).status is Status.CLEAR


def test_memory_of_the_accelerator() -> None:
    values = 1e9 + 1e6 * np.arange(400) + 5e5 * (np.arange(400) % 2)
    [found] = rule.findings(a_run({"mem/allocated": values}))
    assert found.variant == "bytes" and found.severity is Severity.WARNING
    assert rule.outcome(a_run({"mem/allocated": 1e9 + 1e8 * (np.arange(400) % 7)})).status is Status.CLEAR


def test_the_process_alone_is_a_hypothesis() -> None:
    [found] = rule.findings(a_run({"mem/rss": np.linspace(1e9, 4e9, 100)}))
    assert found.variant == "process" and found.confidence is Confidence.SUGGESTIVE
    assert rule.outcome(a_run({"mem/rss": np.r_[np.linspace(1e9, 4e9, 20), np.full(80, 4e9)]})).status is Status.CLEAR


def test_the_limit_is_the_users() -> None:
    slow = _run(graph_nodes=[5, 8, 11, 14, 17])
    assert not list(rule.findings(slow))
    assert list(rule.findings(slow, per_step=0.01))
