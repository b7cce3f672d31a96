"""OPTM010: groups and state of the optimizer."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.optm010_group_or_state_fault import group_or_state_fault
from traindx.run import Event, Run

SEEN = {"optimizer.name": "AdamW", "optimizer.duplicates": [], "optimizer.empty_groups": []}


def the(run, **limits):
    return list(group_or_state_fault.findings(run, **limits))


def test_a_parameter_held_twice_is_a_fact() -> None:
    [found] = the(a_run(facts={**SEEN, "optimizer.duplicates": ["head.weight"]}))
    assert (found.variant, found.where, found.confidence) == ("twice", ("head.weight",), Confidence.EXACT)


def test_an_empty_group_is_a_remark() -> None:
    [found] = the(a_run(facts={**SEEN, "optimizer.empty_groups": [1]}))
    assert (found.variant, found.severity) == ("empty", Severity.INFO)


def test_a_resume_without_state_counts_by_what_it_did_to_the_loss() -> None:
    loss = zoo.falling(1000) + noise(1000, 0.02)
    hurt = loss.copy()
    hurt[500:520] += 0.8
    facts = {**SEEN, "optimizer.fresh_at_step": 500}
    [found] = the(a_run(loss__train=hurt, facts=facts, events=[Event(500, "resume")]))
    assert (found.variant, found.severity, found.steps) == ("stateless", Severity.WARNING, (500, 500))
    saved = [Event(499, "checkpoint", {"keys": ["model"]})]
    assert the(a_run(loss__train=hurt, facts=facts, events=saved))[0].severity is Severity.WARNING
    assert the(a_run(loss__train=hurt, facts=facts))[0].severity is Severity.INFO, "a new phase of the script"
    [found] = the(a_run(loss__train=loss, facts=facts))
    assert (found.variant, found.severity) == ("reset", Severity.INFO)


def test_a_group_left_behind_by_the_schedule_is_named() -> None:
    n = 100
    groups = {"0": np.linspace(1e-3, 1e-5, n), "1": np.full(n, 1e-3)}
    [found] = the(a_run({"lr/group": groups}, facts=SEEN))
    assert (found.variant, found.where, found.severity) == ("idle", ("1",), Severity.INFO)
    assert the(a_run({"lr/group": {"0": np.full(n, 1e-3), "1": np.full(n, 1e-4)}}, facts=SEEN)) == []


def test_seen_and_sound_is_clear_and_nothing_seen_is_blind() -> None:
    assert group_or_state_fault.outcome(a_run(facts=SEEN)).status is Status.CLEAR
    assert group_or_state_fault.outcome(a_run(loss__train=np.ones(50))).status is Status.BLIND


def test_its_limit_is_how_far_the_others_moved() -> None:
    n = 100
    groups = {"0": np.linspace(1e-3, 5e-4, n), "1": np.full(n, 1e-3)}
    assert the(a_run({"lr/group": groups}, facts=SEEN)) and the(a_run({"lr/group": groups}, facts=SEEN), moves=0.9) == []


def test_an_optimizer_made_anew_every_epoch_is_told() -> None:
    def made(steps: list[int], count: int = 59, momentum: float = 0.9):
        groups = [{"lr": 0.1, "momentum": momentum, "params": 6}]
        facts = {**SEEN, "optimizer.steps": steps, "optimizer.groups": groups, "optimizer.fresh_at_step": steps[0]}
        events = [Event(17, "retrained", {"same_parameters": True, "alike": True, "count": count})]
        return a_run(loss__train=zoo.falling(1020), facts=facts, events=events)

    [found] = the(made([17] * 60))
    assert (found.variant, found.severity) == ("rebuilt", Severity.WARNING)
    assert "every 17 steps (60 in all" in found.message and "momentum" in found.message
    [found] = the(made([1] * 60))
    assert found.variant == "anew" and "for every update (60 in all" in found.message
    for other in (made([17] * 60, momentum=0.0), made([500, 300, 220], count=2), made([10, 400, 30, 200, 100, 280], count=5)):
        assert "rebuilt" not in {f.variant for f in the(other)}


def test_folds_that_begin_anew_with_their_optimizer_are_fine() -> None:
    facts = {**SEEN, "optimizer.steps": [200] * 6, "optimizer.groups": [{"lr": 0.1, "momentum": 0.9, "params": 6}]}
    events = [Event(200, "retrained", {"same_parameters": True, "alike": True, "count": 5})]
    one = 0.1 + 2.0 * np.exp(-np.arange(200) / 40)
    assert "rebuilt" not in {f.variant for f in the(a_run(loss__train=np.tile(one, 6), facts=facts, events=events))}
    on = 0.1 + 2.0 * np.exp(-np.arange(1200) / 40)
    assert "rebuilt" in {f.variant for f in the(a_run(loss__train=on, facts=facts, events=events))}


def test_another_model_of_the_same_shape_begins_without_a_state_by_right() -> None:
    loss, told = np.r_[np.linspace(2, 0.1, 200), np.linspace(2, 0.1, 200)], {**SEEN, "optimizer.fresh_at_step": 200}

    def run(**data: object) -> Run:
        return a_run(loss__train=loss, facts=told, events=[Event(200, "retrained", {"alike": True, **data})])

    assert the(run(same_parameters=False, carried=0.0)) == []
    assert the(run(same_parameters=False, carried=1.0)) and the(run(same_parameters=True, carried=0.0))
    assert the(a_run(loss__train=loss, facts={**SEEN, "optimizer.fresh_at_step": 1})) == []
