"""EVAL008: averages that do not add up."""

from __future__ import annotations

from dataclasses import replace

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.eval008_averaging_error import averaging_error as rule
from traindx.run import Event, Run


def _run(reported: float, recomputed: float = 0.5, se: float = 0.001, **signals: float) -> Run:
    table = {name.replace("__", "/"): [value] * 3 for name, value in signals.items()}
    return a_run({"eval/loss_se": [se] * 3, **table}, facts={"eval.metric_recomputed": {"loss": [reported, recomputed]}})


def test_names_the_formula_that_matches() -> None:
    [found] = rule.findings(_run(0.56, eval__unweighted_loss=0.56))
    assert found.severity is Severity.WARNING and "a mean of batch means" in found.message and "+12.0%" in found.message


def test_a_running_mean_over_evaluations_is_recognised() -> None:
    run = a_run({"loss/val": [1.2, 0.7, 0.5]}, facts={"eval.metric_recomputed": {"loss": [0.8, 0.5]}})
    [found] = rule.findings(run)
    assert "all evaluations so far" in found.message


def test_below_the_error_of_the_measurement_it_is_a_remark() -> None:
    [found] = rule.findings(_run(0.505, se=0.01))
    assert found.severity is Severity.INFO


def test_equal_figures_are_clear() -> None:
    assert rule.outcome(_run(0.501)).status is Status.CLEAR
    assert list(rule.findings(_run(0.501), relative=0.001))
    assert rule.outcome(a_run(facts={"eval.metric_recomputed": {"accuracy": [0.5, 0.9]}})).status is Status.CLEAR


def test_a_division_by_the_wrong_count_is_named() -> None:
    event = Event(2, "evaluation", {"samples": 400, "batches": 7, "on_train": False})
    for reported, words in ((0.5 * 7 / 400, "divided by the number of samples"), (3.5, "not divided")):
        [found] = rule.findings(replace(_run(reported, eval__unweighted_loss=0.5, loss__val=0.5), events=(event,)))
        assert found.severity is Severity.WARNING and words in found.message


def test_the_arithmetic_that_was_seen_is_named() -> None:
    run = _run(1.6, 2.4).with_(facts={"eval.metric_formula": {"loss": "padded, exp"}})
    [found] = rule.findings(run)
    assert "padding" in found.message and "exponential (4.953) was printed" in found.message


def test_one_factor_at_every_evaluation_is_a_remark() -> None:
    """A trainer that counts the first label of each sequence: 13 labels for 12 predictions."""
    loss = [2.2, 1.55, 1.39, 1.31]

    def told(factors: list[float]) -> Severity:
        logged = [a * b for a, b in zip(loss, factors, strict=True)]
        told = {"loss/val": loss, "metric/val/eval_loss": logged, "eval/loss_se": [0.01] * 4}
        [found] = rule.findings(a_run(told, facts={"eval.metric_recomputed": {"loss": [logged[-1], loss[-1]]}}))
        return found.severity

    assert told([12 / 13] * 4) is Severity.INFO
    assert told([12 / 13, 1.1, 0.9, 0.8]) is Severity.WARNING
