"""Two runs side by side."""

import numpy as np

from runs import a_run, learning, steady
from traindx.diagnosis.compare import compare


def test_the_same_run_is_the_same() -> None:
    run = a_run(loss__train=learning(800))
    found = compare(run, run)
    assert found.outcome == "same" and found.same_start and found.first is None


def test_another_seed_is_not_called_worse() -> None:
    verdicts = [
        compare(a_run(loss__train=learning(800, seed=s)), a_run(loss__train=learning(800, seed=s + 50))).outcome
        for s in range(30)
    ]
    assert verdicts.count("worse") + verdicts.count("better") <= 1


def test_names_the_step_where_they_part() -> None:
    a = learning(1000)
    b = learning(1000, seed=1)
    b[600:] += 0.3
    found = compare(a_run(loss__train=a), a_run(loss__train=b))
    assert found.outcome == "worse" and found.first is not None
    assert 550 <= (found.first.beyond_noise or 0) <= 650


def test_names_the_layer_that_parts_first() -> None:
    calm = {name: steady(400, seed=i) for i, name in enumerate("abc")}
    other = {name: steady(400, seed=i + 9) for i, name in enumerate("abc")}
    other["b"] = np.r_[other["b"][:100], 5 * other["b"][100:]]
    other["c"] = np.r_[other["c"][:250], 5 * other["c"][250:]]
    found = compare(a_run(grad_norm__param=calm), a_run(grad_norm__param=other))
    assert found.first is not None and found.first.where == "b"


def test_a_run_that_breaks_parts_where_it_breaks() -> None:
    b = learning(400)
    b[300:] = np.nan
    found = compare(a_run(loss__train=learning(400)), a_run(loss__train=b))
    assert found.first is not None and found.first.beyond_noise == 300


def test_warns_when_more_than_one_thing_changed() -> None:
    a = a_run(loss__train=learning(), facts={"optimizer.name": "SGD", "hparams": {"lr": 0.1}})
    b = a_run(loss__train=learning(), facts={"optimizer.name": "Adam", "hparams": {"lr": 0.001}})
    found = compare(a, b)
    assert found.configuration["optimizer.name"] == ("SGD", "Adam") and found.warnings
