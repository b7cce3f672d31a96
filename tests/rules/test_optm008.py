"""OPTM008: ε dominates."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, judged, noise
from traindx.finding import Severity, Status
from traindx.rules.optm008_adam_eps_dominates import adam_eps_dominates


def the(run, **limits):
    return judged(adam_eps_dominates, run, **limits)


def damped(share: float, loss: np.ndarray | None = None, **facts):
    n = 200
    table = {"a": np.full(n, share), "b": np.full(n, 0.01)}
    shapes = {"model.param_shapes": {"a": [64, 64], "b": [64, 64]}}
    loss = 2.3 + noise(n, 0.02) if loss is None else loss
    return a_run({"adam_small_v/param": table, "loss/train": loss}, facts={**shapes, **zoo.CE10, **facts})


def test_damped_tensors_are_named_and_a_warning_while_nothing_is_learned() -> None:
    [found] = the(damped(0.9))
    assert found.where == ("a",) and found.severity is Severity.WARNING and 0.45 < found.facts["share"] < 0.55


def test_a_run_that_learns_all_the_same_gets_a_remark() -> None:
    assert the(damped(0.9, zoo.falling(200) + noise(200, 0.01)))[0].severity is Severity.INFO


def test_where_the_loss_tells_no_progress_it_is_a_remark() -> None:
    assert the(damped(0.9, rl=True))[0].severity is Severity.INFO  # eps=1e-5 is usual for policies


def test_a_step_size_too_small_for_the_others_too_is_another_story() -> None:
    still, moving = (a_run({"update_ratio/param": {"a": np.full(200, 1e-9), "b": np.full(200, v)}}) for v in (2e-7, 1e-3))
    assert the(damped(0.9).with_(still.signals)) == []
    assert the(damped(0.9).with_(moving.signals))[0].severity is Severity.WARNING


def test_a_few_small_entries_are_clear() -> None:
    assert the(damped(0.3)) == []


def test_a_finished_run_has_small_gradients_by_right() -> None:
    assert the(damped(0.9, 2.3 * np.exp(-np.arange(200) / 15)))[0].severity is Severity.INFO


def test_unused_embedding_rows_do_not_count() -> None:
    assert the(damped(0.9, **{"model.embeddings": ["a"]})) == []


def test_exactly_zero_gradients_are_another_rule() -> None:
    run = damped(0.9).with_(a_run({"grad_norm/param": {"a": np.zeros(200), "b": np.ones(200)}}).signals)
    assert the(run) == []


def test_too_few_steps_are_unsure() -> None:
    assert adam_eps_dominates.outcome(damped(0.9).between(hi=10)).status is Status.UNSURE


def test_its_limits_are_shares() -> None:
    assert the(damped(0.9), entries=0.95) == [] and the(damped(0.9), least_share=0.9) == []
