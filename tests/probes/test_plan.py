"""The plan of looks: a function of step numbers, events and counts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from traindx.probes.drive.plan import DENSE, Costs, Plan


def looks(plan: Plan, until: int) -> list[int]:
    return [step for step in range(until) if plan.full(step)]


@pytest.mark.parametrize(("tensors", "elements"), [(4, 1_000), (12, 5_000_000), (240, 100_000), (600, 10**9)])
def test_every_model_has_its_least_evidence_and_no_gap_is_wide(tensors, elements):
    plan = Plan(0.01)
    plan.measure(tensors, elements)
    steps = looks(plan, 60_000)
    assert sum(step < DENSE for step in steps) >= 64
    assert all(b - a <= max(200, b // 100) for a, b in pairwise(steps))
    assert len(steps) < 500


def test_the_same_events_give_the_same_looks():
    def run() -> list[int]:
        plan, seen = Plan(0.01), []
        for step in range(3000):
            if plan.full(step):
                seen.append(step)
            if step in (700, 1500):
                plan.alarm(step)
        return seen

    assert run() == run()
    assert {701, 702, 703, 1501, 1502, 1503} <= set(run())


def test_alarms_at_every_step_are_not_followed_for_ever():
    plan, seen = Plan(0.01), 0
    for step in range(20_000):
        seen += plan.full(step)
        plan.alarm(step)
    assert seen < 2_000
    plan.insist(20_000)
    assert plan.full(20_003)


def test_a_look_is_never_skipped_and_without_a_budget_nothing_is():
    plan = Plan(0.01)
    assert not any(plan.full(step) and plan.skips(step) for step in range(5000))
    assert sum(plan.skips(step) for step in range(5000)) > 4600
    assert not any(Plan(None).skips(step) for step in range(5000))


def test_a_smaller_budget_stretches_the_start_by_octaves():
    assert len(looks(Plan(0.0025), DENSE)) < len(looks(Plan(0.01), DENSE)) < len(looks(Plan(0.1), DENSE))


def test_costs_count_the_dense_start_apart():
    costs = Costs()
    for step in range(2 * DENSE):
        costs.account(step, 0.01, 0.005 if step < DENSE else 0.0001, step < DENSE)
    told = costs.told()
    assert told["share"] == pytest.approx(0.01) and told["total_share"] > 0.2
    assert told["full_steps"] == told["start_steps"] == DENSE
