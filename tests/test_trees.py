"""The differential trees speak of rules that exist, and walk as they say."""

import pytest

from runs import a_run, learning
from traindx.diagnosis import examine
from traindx.diagnosis.trees import TREES, State, Tree, by_code, next_test, presenting, walk
from traindx.rule import catalogue

every_tree = pytest.mark.parametrize("tree", TREES, ids=[t.code for t in TREES])


@every_tree
def test_names_only_rules_that_exist(tree: Tree) -> None:
    named = {c for b in tree.branches for c in b.codes} | set(tree.presents)
    assert named <= set(catalogue()), named - set(catalogue())


@every_tree
def test_every_reading_bears_an_empty_run(tree: Tree) -> None:
    assert [b.reading(a_run()) for b in tree.branches]


def test_a_healthy_run_presents_nothing() -> None:
    run = a_run(loss__train=learning(800))
    assert presenting(run, examine(run)) is None


def test_a_frozen_schedule_confirms_its_branch_and_asks_for_no_trial() -> None:
    import numpy as np

    loss = np.r_[learning(200), np.full(1800, 0.9) + 0.01 * np.random.default_rng(0).normal(size=1800)]
    lr = np.r_[np.full(150, 0.1), np.full(1850, 1e-7)]
    run = a_run(loss__train=loss, lr=lr, facts={"budget.planned_steps": 10000})
    walked = walk(by_code("D"), run, examine(run))
    frozen = next(w for w in walked if "schedule" in w.branch.hypothesis)
    assert frozen.state is State.CONFIRMED and "OPTM003" in frozen.why
    assert next_test(walked) is None


def test_what_is_open_names_its_cheapest_trial() -> None:
    run = a_run(loss__train=learning(800))
    walked = walk(by_code("C"), run, examine(run))
    test = next_test(walked)
    assert test is not None and test.trial
