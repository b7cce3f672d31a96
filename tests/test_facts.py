"""Facts are read without trusting their shape."""

from __future__ import annotations

import math

import pytest

from runs import a_run
from traindx import facts


@pytest.mark.parametrize("odd", [None, 3, "text", [1], {"n": "many"}, float("nan")])
def test_a_fact_of_the_wrong_shape_reads_as_nothing(odd: object) -> None:
    run = a_run(facts={"data.input_stats": odd, "model.outline": odd, "data.class_counts": odd, "data.val_class_counts": odd})
    facts.table(run, "data.input_stats")
    assert facts.layers(run) == []
    assert math.isnan(facts.majority(run)[1])
    assert math.isnan(facts.number(odd)) or isinstance(odd, int | float)


def test_our_own_accuracy_goes_before_the_logged_one() -> None:
    run = a_run(accuracy__val=[0.5, 0.6], metric__val__acc=[10.0, 20.0])
    assert facts.accuracy(run).values.tolist() == [0.5, 0.6]


def test_percent_becomes_a_share() -> None:
    assert facts.accuracy(a_run(metric__val__Acc=[55.0, 60.0])).values.tolist() == [0.55, 0.6]


def test_layers_are_innermost_and_in_forward_order() -> None:
    outline = [
        {"name": "", "class": "Net", "params": 10, "order": 0},
        {"name": "body", "class": "Sequential", "params": 10, "order": 1},
        {"name": "body.1", "class": "Linear", "params": 6, "order": 3},
        {"name": "body.0", "class": "BatchNorm1d", "params": 4, "order": 2},
        {"name": "unused", "class": "Linear", "params": 4, "order": None},
    ]
    run = a_run(facts={"model.outline": outline})
    assert facts.layers(run) == ["BatchNorm1d", "Linear"]
    assert facts.has_layer(run, "Norm") and not facts.has_layer(run, "Dropout")


def test_the_majority_comes_from_counts_or_from_the_last_evaluation() -> None:
    assert facts.majority(a_run(facts={"data.val_class_counts": {"a": 30, "b": 70}})) == ("b", 0.7, 100.0)
    assert facts.majority(a_run({"eval/support/class": {"x": [9.0, 9.0], "y": [1.0, 1.0]}})) == ("x", 0.9, 10.0)


def test_names_and_pairs() -> None:
    run = a_run(facts={"model.embeddings": ["emb.weight"], "model.unregistered": {"self.blocks": "Linear"}})
    assert facts.strings(run, "model.unregistered") == ("self.blocks",)
    assert facts.takes_tokens(run)
    assert facts.pair([1, 2.5]) == (1.0, 2.5)
    assert all(map(math.isnan, facts.pair("ab")))
    assert facts.numbers([1, "x"]).tolist()[0] == 1.0


def test_the_majority_of_few_samples_evaluated_often_still_counts_few_samples() -> None:
    run = a_run({"eval/support/class": {"0": [4.0, 4.0], "1": [8.0, 8.0]}}, facts={"data.val_class_counts": {"0": 40, "1": 80}})
    assert facts.majority(run) == ("1", 2 / 3, 12.0)
