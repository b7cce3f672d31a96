"""PERF007: steps take longer and longer."""

from __future__ import annotations

import numpy as np

from runs import a_run, noise, steady
from traindx.finding import Severity, Status
from traindx.rules.perf007_throughput_drift import throughput_drift as rule
from traindx.run import Series

N = 800
CREEP = 0.05 * (1 + 1.5 * np.arange(N) / N) * (1 + noise(N, 0.05))


def test_an_even_climb_is_a_warning() -> None:
    [found] = rule.findings(a_run({"time/step": CREEP}))
    assert found.severity is Severity.WARNING and 2.0 < found.facts["ratio"] < 2.6


def test_a_short_toy_run_is_a_remark() -> None:
    [found] = rule.findings(a_run({"time/step": CREEP / 50}))
    assert found.severity is Severity.INFO


def test_a_jump_of_a_busy_machine_is_a_remark_at_most() -> None:
    times = steady(N, 0.05)
    times[N // 2 :] *= 2.0
    assert all(f.severity is Severity.INFO for f in rule.findings(a_run({"time/step": times})))


def test_steady_steps_are_clear() -> None:
    for seed in range(10):
        assert rule.outcome(a_run({"time/step": steady(N, 0.05, 0.3, seed)})).status is Status.CLEAR


def test_longer_sequences_explain_longer_steps() -> None:
    length = 100 * (1 + 1.5 * np.arange(N) / N)
    assert rule.outcome(a_run({"time/step": CREEP, "batch/length": length})).status is Status.CLEAR


def test_a_logged_throughput_that_falls() -> None:
    [found] = rule.findings(a_run({"throughput": 1.0 / CREEP}))
    assert found.facts["ratio"] > 1.5


def test_the_limit_is_the_users() -> None:
    assert not list(rule.findings(a_run({"time/step": CREEP}), ratio=4.0))


def test_sixty_records_of_every_tenth_step_are_enough() -> None:
    times = 0.05 * (1 + 2.0 * np.arange(60) / 60) * (1 + noise(60, 0.02))
    [found] = rule.findings(a_run({"time/step": Series(np.arange(60) * 10, times)}))
    assert found.severity is Severity.WARNING and found.facts["ratio"] > 2
    assert not list(rule.findings(a_run({"time/step": Series(np.arange(60) * 10, 0.05 * (1 + noise(60, 0.05)))})))


def test_processor_time_that_climbs_needs_no_ten_seconds() -> None:
    used = Series(np.arange(20, 900, 11), 0.001 * (1 + 1.2 * np.arange(80) / 80) * (1 + noise(80, 0.05)))
    uneven = np.where(np.arange(N) % 200 < 90, 0.002, 0.03)  # the wall clock of a busy machine shows nothing
    [found] = rule.findings(a_run({"time/step": uneven, "time/cpu": used}))
    assert found.severity is Severity.WARNING and "processor time" in found.message and found.where == ("time/cpu",)
    longer = a_run({"time/step": uneven, "time/cpu": used, "batch/length": 100 * (1 + 1.2 * np.arange(N) / N)})
    assert not any(f.severity is Severity.WARNING for f in rule.findings(longer))


def test_a_busy_machine_does_not_raise_processor_time() -> None:
    flat = Series(np.arange(20, 900, 11), 0.001 * (1 + noise(80, 0.1)))
    assert all(f.severity is Severity.INFO for f in rule.findings(a_run({"time/step": CREEP / 50, "time/cpu": flat})))


def test_a_single_odd_batch_does_not_stand_for_what_follows() -> None:
    sizes = np.full(30, 128.0)
    sizes[-1] = 64.0
    run = a_run({"time/step": steady(N, 0.05, 0.05)}).with_({"batch/size": Series(np.arange(30) * 8, sizes)})
    assert rule.outcome(run).status is Status.CLEAR


def test_the_part_that_grows_is_named() -> None:
    run = a_run({"time/step": CREEP, "time/rest": CREEP - 0.045, "time/forward": steady(N, 0.02), "time/data": steady(N, 0.0)})
    [found] = rule.findings(run)
    assert "in the loop's own code" in found.message
    spread = a_run({"time/step": CREEP, "time/rest": CREEP / 2, "time/forward": CREEP / 2})
    assert [", in " in f.message for f in rule.findings(spread)] == [False]
