"""The budget: first steps in full, then a share of the time, more when something looks wrong."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from traindx.probes import recorder as recording
from traindx.probes.gate import ENTRIES, GradGate, LossGate
from traindx.probes.governor import ALWAYS, DEAR_S, FIRST, START_S, Governor
from traindx.probes.recorder import FACTS_S, FACTS_SHARE, Recorder


def drive(governor: Governor, steps: int, step_s: float, lean_s: float, full_s: float) -> list[int]:
    full = []
    for step in range(steps):
        is_full = governor.full(step)
        own = full_s if is_full else lean_s
        governor.account(step, step_s + own, own, is_full)
        if is_full:
            full.append(step)
    return full


def test_the_first_steps_are_always_full():
    assert drive(Governor(0.01), 40, 1e-3, 1e-5, 1e-2)[:FIRST] == list(range(FIRST))


@pytest.mark.parametrize("step_s", [3e-3, 0.01, 0.3])
@pytest.mark.parametrize("full_s", [5e-4, 5e-3])
def test_the_share_stays_within_the_budget(step_s, full_s):
    governor = Governor(0.01)
    full = drive(governor, 50_000, step_s, 5e-6, full_s)
    cost = governor.cost()
    assert cost["share"] < 0.0105
    assert cost["seconds"] <= START_S + FIRST * full_s + 0.01 * governor.elapsed_s + 4 * full_s
    assert len(full) > 50


def test_on_a_crowded_machine_the_start_lasts_as_much_longer():
    def seen(share: float) -> int:
        governor = Governor(0.01)
        governor.had(share, 1.0)
        return len(drive(governor, 2_000, 0.02, 1e-4, 0.05))

    assert seen(0.5) > seen(1.0) + 3
    assert seen(0.01) == seen(0.25)  # it ends, whatever was measured


def test_everything_every_step_without_a_budget():
    assert len(drive(Governor(None), 300, 1e-3, 1e-5, 1e-2)) == 300


def test_a_short_run_is_read_closely_while_the_free_time_of_the_start_lasts():
    full = drive(Governor(0.0), 1000, 1e-4, 1e-5, 5e-3)
    gaps = [(b - a) / a for a, b in zip(full[FIRST:], full[FIRST + 1 :])]
    assert max(gaps) < 0.2


def test_where_nothing_can_be_saved_up_a_run_is_read_each_time_it_has_doubled():
    full = [step for step in drive(Governor(0.01), 5000, 3e-3, 1e-4, 1.0) if step >= FIRST]
    gaps = [(b - a) / a for a, b in itertools.pairwise(full)]
    assert 1 <= max(gaps) < 1.1 and len(full) < 10


@pytest.mark.parametrize("seconds", [10, 60])
def test_what_the_start_has_spent_is_not_owed_and_large_models_keep_to_the_budget_at_once(seconds):
    governor = Governor(0.01)
    full = drive(governor, int(seconds / 0.043), 0.043, 2e-4, 0.15)
    assert governor.cost()["share"] <= 0.01
    late = [step for step in full if step >= FIRST]
    assert len(late) >= 0.5 * (seconds * 0.01 - seconds / 0.043 * 2e-4) / 0.15 - 1


def test_what_a_full_step_leaves_to_be_written_belongs_to_its_cost_and_not_to_the_lean_steps():
    governor, full = Governor(0.01), []
    for step in range(1500):
        is_full = governor.full(step)
        own = 0.1 if is_full else 2e-4 + (0.08 if step - 1 in full[-1:] else 0.0)
        governor.account(step, 0.043 + own, own, is_full)
        full += [step] if is_full else []
    assert governor.cost()["share"] <= 0.01
    assert full[-1] > FIRST


def test_any_time_after_the_start_no_more_is_spent_than_the_budget_has_earned_since():
    governor = Governor(0.01)
    for step in range(3000):
        is_full = governor.full(step)
        own = 0.1 if is_full else 2e-4
        governor.account(step, 0.05 + own, own, is_full)
        assert governor.later_spent_s <= 0.01 * governor.later_elapsed_s + 2e-4
    assert governor.full_steps > FIRST + 5


def test_what_the_last_full_step_of_the_start_leaves_to_be_written_is_spent_by_the_start():
    governor, left = Governor(0.01), False
    for step in range(60):
        is_full = governor.full(step)
        own = 0.2 if is_full else 0.1 if left else 1e-4
        governor.account(step, 0.4 + own, own, is_full)
        left = is_full
    assert governor.cost()["share"] < 0.001


def test_dear_full_steps_are_not_forced_upon_the_start():
    governor = Governor(0.01)
    full = drive(governor, FIRST, 0.1, 1e-4, 1.0)
    assert full == list(range(ALWAYS)), "the first few whatever they cost, no more once two seconds are spent"
    assert governor.spent_s < DEAR_S + 2.0
    assert not governor.starting


def test_alarms_without_end_do_not_make_every_step_a_full_one():
    governor = Governor(0.01)
    drive(governor, 4000, 1e-2, 1e-5, 1e-2)
    full = 0
    for step in range(4000, 5000):
        if step % 10 == 0:
            governor.alarm(3)
        is_full = governor.full(step)
        own = 1e-2 if is_full else 1e-5
        governor.account(step, 1e-2 + own, own, is_full)
        full += is_full
    assert 100 <= full <= 130  # the abnormal ones themselves, and hardly more


def test_the_start_is_told_apart_from_the_rest():
    governor = Governor(0.01)
    drive(governor, 50_000, 1e-2, 1e-5, 1e-2)
    cost = governor.cost()
    assert START_S <= cost["start_seconds"] < START_S + 0.1
    assert cost["total_share"] == pytest.approx(cost["seconds"] / governor.elapsed_s)
    assert Governor(0.01).cost()["share"] == 0.0


def test_an_alarm_makes_the_next_steps_full():
    governor = Governor(0.0)
    drive(governor, 100, 1e-3, 1e-5, 1e-2)
    governor.alarm(3)
    assert [governor.full(s) for s in (101, 102, 103)] == [True, True, True]
    assert not all(governor.full(s) for s in (104, 105, 106))


def test_short_steps_count_as_three_milliseconds():
    governor = Governor(0.01)
    drive(governor, 50_000, 2e-4, 1e-6, 3e-4)
    assert 0.05 < governor.cost()["share"] < 0.16


def test_the_gate_sees_leaps_and_forgets_trends():
    gate = LossGate()
    falling = [gate.z(2.0 * 0.99**i + 0.02 * ((i * 7919) % 13 - 6) / 6) for i in range(400)]
    assert max(falling) < LossGate.ABNORMAL
    assert gate.z(1.0) > LossGate.ABNORMAL


@pytest.mark.parametrize("cost_s", [1e-3, 0.1])
def test_facts_that_are_dear_to_ask_for_are_asked_for_less_often(cost_s, monkeypatch):
    now, asked = [0.0], []
    monkeypatch.setattr(recording.time, "perf_counter", lambda: now[0])
    recorder = Recorder(probes=[])

    def facts() -> dict[str, str]:
        asked.append(now[0])
        now[0] += cost_s
        return {}

    recorder.sources.append(facts)
    recorder.scene.step = 1000
    while now[0] < 1000.0:
        now[0] += 1.0
        recorder.look_ahead(now[0])
    pause = max(FACTS_S, cost_s / FACTS_SHARE)
    assert all(pause <= b - a <= pause + 2.0 for a, b in itertools.pairwise(asked))
    assert len(asked) >= 1000.0 / (pause + 2.0) - 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("units", [3, 5 * ENTRIES + 1])
def test_the_gate_of_gradients_sees_what_is_not_finite(units, dtype):
    model = nn.Sequential(nn.Linear(4, units), nn.ReLU(), nn.Linear(units, 2)).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    recorder, gate, x = Recorder(probes=[]), GradGate(), torch.randn(64, 4, dtype=dtype)
    recorder.refresh([model], [optimizer])
    for factor in (1.0, math.nan, 1.0, math.inf, 1.0):
        optimizer.zero_grad()
        (model(x).square().sum() * factor).backward()
        assert gate.bad(recorder.scene, optimizer) == (not math.isfinite(factor))


def test_the_gate_of_gradients_reads_no_further_than_a_parameter_that_was_cut():
    model = nn.Linear(4, 3 * ENTRIES)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    recorder, gate = Recorder(probes=[]), GradGate()
    recorder.refresh([model], [optimizer])
    for rows in (3 * ENTRIES, 2):
        model.weight.data, model.bias.data = model.weight.data[:rows], model.bias.data[:rows]
        model.weight.grad = model.bias.grad = None
        (model(torch.randn(5, 4)).sum() * math.nan).backward()
        assert gate.bad(recorder.scene, optimizer)
