"""The error table of an evaluation in the report."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.report.errors import tables
from traindx.run import Matrix, Run

CONFUSION = [[60, 8, 2], [3, 55, 12], [0, 9, 1]]


def _page(run: Run) -> str:
    return "".join(tables(run))


def test_classes_are_named_and_say_what_they_are_taken_for() -> None:
    support = Matrix(np.array([100, 200]), ("cat", "dog", "<b>owl"), np.tile([70.0, 70.0, 10.0], (2, 1)))
    run = a_run({"eval/support/class": support}, facts={"eval.confusion": CONFUSION, "eval.auroc": {"0": 0.98, "2": 0.4}})
    page = _page(run)
    assert "step 200" in page and "&lt;b&gt;owl" in page and "<b>owl" not in page
    assert "dog (9)" in page and '<td class="num wrong2">10.0%</td>' in page  # recall of the owls
    assert page.count("<table") == 2


def test_calibration_says_how_much_too_sure_and_what_a_temperature_would_win() -> None:
    signals = {"confidence/val": [0.95], "accuracy/val": [0.8], "eval/temperature": [1.7], "loss/val": [0.9]}
    page = _page(a_run({**signals, "eval/nll_tempered": [0.6]}, facts={"eval.ece": 0.15}))
    assert "15.0% too sure" in page and "the loss would be 0.6 instead of 0.9" in page
    assert "nothing to gain" in _page(a_run({**signals, "eval/nll_tempered": [0.95]}, facts={"eval.ece": 0.15}))


def test_only_slices_that_are_worse_are_shown_and_chance_is_said_in_words() -> None:
    rows = [
        {"slice": f"site {n}", "n": 80, "loss": loss, "mean_loss": 0.5, "p": p}
        for n, loss, p in (("a", 3.0, 1e-9), ("b", 0.6, 0.4), ("c", 0.1, 1.0))
    ]
    page = _page(a_run(facts={"eval.slices": rows}))
    assert "site a" in page and "6.0" in page and "perhaps" in page and "site c" not in page


def test_watched_samples_tint_what_is_wrong() -> None:
    told = {"targets": [1.0, 2.0], "steps": [31, 63], "predicted": [[1.0, 0.0], [1.0, 2.0]]}
    page = _page(a_run(facts={"eval.probes": told}))
    assert page.count("wrong1") == 1 and "<th class=num>63</th>" in page
    numbers = _page(a_run(facts={"eval.probes": {**told, "predicted": [[1.1, 0.4], [0.9, 1.8]]}}))
    assert "wrong1" not in numbers and "tinted" not in numbers


def test_odd_facts_leave_nothing() -> None:
    for facts in (
        {},
        {"eval.confusion": "x", "eval.slices": 3, "eval.worst": {"a": 1}, "eval.probes": {"steps": [1], "targets": "x"}},
    ):
        assert _page(a_run(facts=facts)) == ""
