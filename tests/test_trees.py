"""The differential trees speak of rules that exist, and walk as they say."""

import numpy as np
import pytest

from each import each
from runs import a_run, learning
from traindx.cli.investigate import conversation
from traindx.diagnosis import Diagnosis, examine
from traindx.diagnosis.posterior import rank
from traindx.diagnosis.story import tell
from traindx.diagnosis.trees import (
    TREES,
    State,
    Tree,
    by_code,
    information,
    named,
    next_test,
    presenting,
    settled,
    shares,
    walk,
)
from traindx.diagnosis.verdict import judge
from traindx.errors import UsageError
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.rule import catalogue
from traindx.run import Run, Series

every_tree = each(TREES, lambda t: t.code)


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


# -- a path through every tree

every_branch = each([(t, i) for t in TREES for i in range(len(t.branches))], lambda at: f"{at[0].code}-{at[1]}")


def spoken(code: str, status: Status, confidence: Confidence = Confidence.STRONG) -> Outcome:
    f = Finding(code, catalogue()[code].name, Severity.WARNING, confidence, f"{code} speaks", (), (5, 9), {}, (), "")
    return Outcome(code, status, (f,) if status is Status.FOUND else (), reason="" if status is Status.FOUND else "not seen")


def outcomes_with(**status: Status) -> tuple[Outcome, ...]:
    return tuple(spoken(code, status.get(code, Status.CLEAR)) for code in catalogue())


def told(outcomes: tuple[Outcome, ...], run: Run) -> Diagnosis:
    stories, causes = tell(outcomes, catalogue()), rank(run, outcomes, catalogue())
    return Diagnosis(run, outcomes, stories, causes, judge(run, outcomes, stories, causes))


def talked(outcomes: tuple[Outcome, ...], tree: Tree, *answers: str) -> dict[str, str]:
    left = [str(TREES.index(tree) + 1), *answers]
    run = a_run(loss__train=learning(400))
    return conversation(told(outcomes, run), lambda _: None, lambda _: left.pop(0) if left else "")


@every_branch
def test_what_a_rule_finds_settles_its_hypothesis_and_the_walk_says_so(at: tuple[Tree, int]) -> None:
    tree, i = at
    branch = tree.branches[i]
    walked = walk(tree, a_run(), outcomes_with(**{branch.codes[0]: Status.FOUND}))
    assert walked[i].state is State.CONFIRMED and branch.codes[0] in walked[i].why
    others = [w for w in walked if not set(w.branch.codes) & {branch.codes[0]}]
    assert all(w.state is State.REFUTED and w.why for w in others if not w.branch.beyond), "clear is refuted, with a reason"
    assert all(w.state is State.OPEN and w.branch.trial for w in others if w.branch.beyond), "or a trial has to look"
    assert next_test(walked) is None or branch.verdict == "cannot-tell"


@every_branch
def test_a_person_who_knows_the_answer_is_led_to_its_verdict(at: tuple[Tree, int]) -> None:
    tree, i = at
    blind = {c: Status.BLIND for b in tree.branches for c in b.codes}
    said = talked(outcomes_with(**blind), tree, *["n"] * i, "y")
    assert said["tree"] == tree.code
    if tree.branches[i].verdict != "cannot-tell":
        assert said["verdict"] == tree.branches[i].verdict and tree.branches[i].hypothesis in said["summary"]


@every_tree
def test_what_is_left_when_all_else_is_denied_is_the_answer(tree: Tree) -> None:
    blind = {c: Status.BLIND for b in tree.branches for c in b.codes}
    said = talked(outcomes_with(**blind), tree, *["n"] * (len(tree.branches) - 1), "")
    assert said["summary"].startswith("By exclusion") and said["verdict"] == tree.branches[-1].verdict


@every_tree
def test_when_nobody_knows_the_next_test_tells_most_for_its_steps(tree: Tree) -> None:
    walked = walk(tree, a_run(), outcomes_with(**{c: Status.BLIND for b in tree.branches for c in b.codes}))
    assert all(w.state is State.OPEN for w in walked)
    test = next_test(walked)
    trials = [b for b in tree.branches if b.trial]
    assert (test in trials) if trials else test is None
    share = shares(walked)
    rate = {b.trial: information(share[b.trial]) / max(b.cost, 1) for b in trials}
    assert test is None or rate[test.trial] >= max(rate.values()) - 1e-12 or test.cost == min(b.cost for b in trials)


@every_tree
def test_a_finding_presents_its_complaint(tree: Tree) -> None:
    first = learning(300)
    if tree.code == "DX-A":
        first[:] = np.nan
    if tree.code == "DX-I":
        first[:] = 2.3
    code = (tree.presents or ("NUMR001",))[0]
    shown = presenting(a_run(loss__train=first), outcomes_with(**{code: Status.FOUND}))
    assert shown is not None and (shown.tree is tree or code in shown.tree.presents) and code in shown.why


def test_the_resolution_of_an_evaluation_is_a_caution_and_no_answer() -> None:
    tree = by_code("D")
    blind = {c: Status.BLIND for b in tree.branches for c in b.codes} | {"EVAL002": Status.FOUND}
    assert settled(walk(tree, a_run(), outcomes_with(**blind))) is None
    said = talked(outcomes_with(**blind), tree)
    assert said["verdict"] == "cannot-tell" and "resolution" in said["summary"] and "traindx trial" in said["summary"]


def test_an_unknown_complaint_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match="DX-L training is slow"):
        named("slow")


def test_a_training_loss_that_falls_alone_is_no_slow_convergence() -> None:
    steps = np.arange(0, 800, 20)
    falls, flat = 0.5 + np.exp(-steps / 400), 0.5 + np.exp(-steps / 60)
    jitter = 0.002 * np.random.default_rng(0).normal(size=40)

    def slow(val: np.ndarray) -> State:
        run = a_run(loss__train=learning(800)).with_({"loss/val": Series(steps, val + jitter)})
        found = walk(by_code("D"), run, outcomes_with(LOSS004=Status.FOUND))
        return next(w.state for w in found if "slow convergence" in w.branch.hypothesis)

    assert slow(falls) is State.CONFIRMED and slow(flat) is State.OPEN
    run = a_run(loss__train=learning(800, floor=0.1)).with_({"loss/val": Series(steps, flat + jitter)})
    limit = next(w for w in walk(by_code("D"), run, outcomes_with()) if "generalisation" in w.branch.hypothesis)
    assert limit.state is State.LIKELY and "training falls on" in limit.why


def test_of_several_confirmed_hypotheses_the_one_of_the_most_probable_cause_is_told() -> None:
    walked = walk(by_code("D"), a_run(), outcomes_with(OPTM003=Status.FOUND, ACTV001=Status.FOUND))
    first, second = settled(walked), settled(walked, ("ACTV001", "OPTM003"))
    assert first is not None and "schedule" in first.branch.hypothesis
    assert second is not None and "dead units" in second.branch.hypothesis


def test_dropout_is_not_refuted_by_rules_that_do_not_look_at_it() -> None:
    walked = walk(by_code("I"), a_run(loss__train=np.full(400, 2.0)), outcomes_with())
    [held_back] = [w for w in walked if w.branch.hypothesis == "over-regularised"]
    assert held_back.state is State.OPEN and "a part of it only" in held_back.why


def test_a_remark_confirms_no_fault() -> None:
    small = Finding("EVAL008", "", Severity.INFO, Confidence.STRONG, "the mean is 0.6 % off", (), (5, 9), {}, (), "")
    outcomes = [o for o in outcomes_with() if o.code != "EVAL008"] + [Outcome("EVAL008", Status.FOUND, (small,))]
    [padding] = [w for w in walk(by_code("J"), a_run(), outcomes) if "averaging" in w.branch.hypothesis]
    assert padding.state is State.LIKELY


def test_the_complaint_is_the_gravest_one_that_the_curves_show_and_says_why() -> None:
    high, low = a_run(loss__train=np.linspace(2.3, 1.9, 400)), a_run(loss__train=learning(400))
    assert presenting(high, outcomes_with(EVAL004=Status.FOUND)).tree.code == "DX-I"
    assert presenting(low, outcomes_with(EVAL004=Status.FOUND)).tree.code == "DX-K"
    remark = Finding("LOSS003", "", Severity.INFO, Confidence.STRONG, "flat", (), (5, 9), {}, (), "")
    both = [o for o in outcomes_with(LOSS008=Status.FOUND) if o.code != "LOSS003"]
    shown = presenting(low, [Outcome("LOSS003", Status.FOUND, (remark,)), *both])
    assert shown.tree.code == "DX-G" and shown.why == "LOSS008: LOSS008 speaks"


@pytest.mark.parametrize(("facts", "verdict"), [({}, "fix-and-resume"), ({"schedule.name": "CosineAnnealingLR"}, "wait")])
def test_a_noise_floor_is_waited_for_only_where_something_will_lower_the_rate(facts: dict[str, str], verdict: str) -> None:
    run = a_run(loss__train=learning(400), lr=np.full(400, 0.03), facts=facts)
    [floor] = [w for w in walk(by_code("D"), run, outcomes_with(OPTM005=Status.FOUND)) if "noise floor" in w.branch.hypothesis]
    assert floor.state is State.CONFIRMED and floor.branch.verdict == verdict
    assert ("decay to zero" in floor.branch.hypothesis) == (verdict != "wait")


def test_stale_moments_are_not_blamed_where_a_high_rate_explains_the_same() -> None:
    run = a_run(loss__train=learning(400), lr=np.full(400, 0.03))
    found = rank(run, outcomes_with(OPTM007=Status.FOUND, LOSS006=Status.FOUND, GRAD003=Status.FOUND), catalogue())
    blamed = {s.cause.name: s.probability for s in found}
    assert found[0].cause.name == "lr-too-high" and blamed.get("adam-stale-moments", 0.0) < 0.5, blamed
