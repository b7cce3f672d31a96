"""Two faults do not hide each other, and a page names one point to resume from."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import zoo
from each import each
from runs import a_run, learning
from traindx.diagnosis import Diagnosis, diagnose, way_on
from traindx.diagnosis.posterior import rank
from traindx.diagnosis.story import tell
from traindx.diagnosis.verdict import judge
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.report.issues import issues
from traindx.rule import catalogue
from traindx.run import Event, Run

EXACT, STRONG = Confidence.EXACT, Confidence.STRONG
CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


def outcome(code: str, variant: str, severity: Severity, confidence: Confidence, steps: tuple[int, int] = (5, 299)) -> Outcome:
    f = Finding(code, catalogue()[code].name, severity, confidence, f"{code} speaks", (), steps, {}, (), "do it", None, variant)
    return Outcome(code, Status.FOUND, (f,))


def diagnosed(run: Run, *found: Outcome) -> Diagnosis:
    by_code = {o.code: o for o in found}
    every = [by_code.get(code, Outcome(code, Status.BLIND)) for code in catalogue()]
    stories, causes = tell(every, catalogue()), rank(run, every, catalogue())
    return Diagnosis(run, tuple(every), stories, causes, judge(run, every, stories, causes))


WIRING = [
    (code, variant)
    for code, r in catalogue().items()
    if code.startswith(("WIRE", "OPTM")) and r.severity is CRITICAL and r.confidence is EXACT
    for variant in r.says
]
BESIDES = [
    ("EVAL009", "", CRITICAL, EXACT),
    ("EVAL003", "", CRITICAL, EXACT),
    ("LOSS008", "", WARNING, STRONG),
    ("LOSS001", "", CRITICAL, STRONG),
    ("PERF001", "", WARNING, STRONG),
    ("DATA008", "", WARNING, STRONG),
]


@each(list(itertools.product(WIRING, BESIDES)))
def test_a_critical_fact_is_told_first_whatever_else_is_found(
    both: tuple[tuple[str, str], tuple[str, str, Severity, Confidence]],
) -> None:
    fact, other = both
    run = a_run(loss__train=learning(300), facts={"model.outline": [{}]})
    found = outcome(*fact, CRITICAL, EXACT)
    d = diagnosed(run, found, outcome(*other))
    told = issues(d)
    assert fact[0] in told[0].supports, (told[0], d.verdict_)
    assert d.verdict in ("restart", "fix-and-resume"), d.verdict_
    assert "weights are fine" not in d.verdict_.start
    seen = {code for issue in told for code in issue.supports} | {c.code for s in d.stories for c in s.consequences}
    assert other[0] in seen  # … and the other is not hidden


def test_weights_are_not_called_fine_beside_a_critical_finding() -> None:
    run = a_run(loss__train=learning(300), facts={"model.outline": [{}]})
    alone = diagnosed(run, outcome("EVAL009", "", CRITICAL, EXACT))
    assert alone.verdict == "fix-evaluation" and "weights are fine" in alone.verdict_.start
    both = diagnosed(run, outcome("EVAL009", "", CRITICAL, EXACT), outcome("WGHT005", "", CRITICAL, STRONG))
    assert "weights are fine" not in both.verdict_.start


def broken(length: int, at: int = 1201) -> Run:
    loss = learning(length, 16.0, 0.4)
    loss[at + 1 :] = np.geomspace(1e4, 1e30, max(1, length - at - 1))[: length - at - 1]
    loss[at + 4 :] = np.nan
    return a_run(loss__train=loss, facts={"model.outline": [{}]})


@pytest.mark.parametrize("length", [1206, 1216, 1400, 9000])
def test_the_resume_point_lies_before_the_break_live_and_in_the_end(length: int) -> None:
    run = broken(length)
    early = replace(outcome("OPTM002", "", CRITICAL, STRONG, (0, 0)))
    late = outcome("LOSS001", "nonfinite", CRITICAL, EXACT, (1213, length - 1))
    for found in ((late,), (early, late), (outcome("GRAD002", "", CRITICAL, STRONG, (1203, 1205)), late)):
        d = diagnosed(run, *found)
        assert (d.verdict, d.verdict_.resume_from) == ("fix-and-resume", 1200), d.verdict_


def test_what_began_shortly_before_the_break_is_not_resumed_from() -> None:
    loss = learning(1500, 4.0, 0.3)
    loss[1203:] = np.geomspace(5, 1e9, 297)
    run = a_run(loss__train=loss, lr=np.where(np.arange(1500) < 1200, 0.05, 0.4), facts={"model.outline": [{}]})
    d = diagnose(run)
    assert (d.causes[0].cause.name, d.verdict, d.verdict_.resume_from) == ("lr-too-high", "fix-and-resume", 1199)
    live = a_run(loss__train=loss[:1204], events=[Event(1205, "nonfinite", {"what": "loss"})], facts={"model.outline": [{}]})
    found = diagnosed(live, outcome("LOSS001", "nonfinite", CRITICAL, EXACT, (1205, 1205)))
    assert found.verdict_.resume_from is not None and found.verdict_.resume_from <= 1202  # its loss was not recorded yet


def test_broken_samples_come_before_the_gradients_they_made_explode() -> None:
    loss = np.r_[np.full(5, 2.3), np.geomspace(3, 1e20, 295)]
    found = [
        outcome("DATA001", "harmful", WARNING, STRONG, (0, 299)),
        *(
            outcome(c, v, CRITICAL, STRONG)
            for c, v in (("GRAD002", ""), ("LOSS001", ""), ("OPTM002", ""), ("LOSS013", "worse"))
        ),
        *(outcome(c, "", WARNING, STRONG) for c in ("LOSS006", "WGHT001", "ACTV004")),
    ]
    d = diagnosed(a_run(loss__train=loss, facts={"model.outline": [{}]}), *found)
    assert d.causes[0].cause.name == "bad-data-values" and d.verdict_.resume_from in (None, 0)


def test_a_run_that_never_learned_has_nothing_to_resume_from() -> None:
    loss = np.r_[[2.3, 2.3, 2.4], np.geomspace(3, 1e6, 200)]
    d = diagnosed(a_run(loss__train=loss, facts={"model.outline": [{}]}), outcome("LOSS001", "", CRITICAL, STRONG, (3, 202)))
    assert d.verdict == "restart"


def test_a_batch_that_was_bad_before_the_model_is_not_blamed_on_an_operation() -> None:
    run = a_run(loss__train=np.r_[learning(300), np.full(100, np.nan)], facts={"model.outline": [{}]})
    d = diagnosed(
        run,
        outcome("NUMR001", "batch", CRITICAL, EXACT, (300, 399)),
        outcome("LOSS001", "nonfinite", CRITICAL, EXACT, (300, 399)),
        outcome("NUMR003", "", CRITICAL, EXACT, (300, 399)),
    )
    assert d.causes[0].cause.name == "bad-data-values" and d.causes[0].probability > 0.66, d.causes[:2]
    assert "Invalid values" in d.verdict_.headline


# -- how it ended


@pytest.mark.parametrize(
    ("facts", "verdicts", "said"),
    [
        ({"ended": "killed"}, ("fix-and-resume",), "killed at step 999"),
        (
            {"ended": "exception", "exception": {"type": "KeyboardInterrupt"}},
            ("healthy", "wait"),
            "stopped by hand at step 999",
        ),
        (
            {"ended": "exception", "exception": {"type": "OutOfMemoryError", "message": "CUDA"}},
            ("fix-and-resume",),
            "OutOfMemory",
        ),
    ],
    ids=["killed", "by-hand", "memory"],
)
def test_how_a_run_ended_belongs_to_the_verdict(facts: dict[str, object], verdicts: tuple[str, ...], said: str) -> None:
    healthy = diagnose(a_run(loss__train=learning(1000)))
    assert healthy.verdict in ("healthy", "wait") and "killed" not in healthy.summary
    d = diagnose(a_run(loss__train=learning(1000), facts=facts))
    assert d.verdict in verdicts and said in d.summary and said in str(d), d.verdict_
    sick = diagnose(a_run(loss__train=np.r_[learning(700), np.full(300, np.nan)], facts=facts))
    assert said in sick.summary and sick.verdict not in ("healthy", "wait")


def test_bad_batches_that_come_again_are_not_healthy_and_each_counts_once() -> None:
    rng = np.random.default_rng(0)
    loss = learning(1000)
    at = np.sort(rng.choice(np.arange(120, 990, 6), 13, replace=False))
    loss[at] = 271.0 * rng.uniform(0.8, 1.2, 13)
    loss[at + 1] += 60.0  # the weights were moved
    d = diagnose(a_run(loss__train=loss))
    (found,) = [f for f in d.findings if f.code == "LOSS007"]
    assert found.facts["count"] == 13 and d.verdict not in ("healthy", "wait"), d.verdict_


def test_what_an_ended_run_learned_is_not_called_lost() -> None:
    told = way_on.waiting(a_run(loss__train=learning(1000), facts={"ended": "closed"}), "restart", None, None)
    assert "lost" not in told and "Stop this run" not in told


@pytest.mark.parametrize(
    ("variant", "cause"), [("nll", "loss-head-mismatch"), ("kl", "loss-head-mismatch"), ("softmax", "double-activation")]
)
def test_a_missing_activation_is_not_called_one_too_many(variant: str, cause: str) -> None:
    found, clear = outcome("WIRE006", variant, CRITICAL, EXACT), Outcome("WIRE007", Status.CLEAR)
    d = diagnosed(a_run(loss__train=np.full(300, 12.0), facts={"model.outline": [{}]}), found, clear)
    assert d.causes[0].cause.name == cause and d.causes[0].probability > 0.5


def test_what_the_first_trouble_accounts_for_is_no_trouble_of_its_own() -> None:
    run = a_run(loss__train=[0.7] * 300, facts={"model.outline": [{}]})
    sampler = outcome("DATA012", "few", CRITICAL, EXACT)
    # two consequences: so few samples hold one class only, and one answer is enough for it
    classes, majority = outcome("DATA008", "classes", WARNING, EXACT), outcome("EVAL004", "majority", WARNING, STRONG)
    one, gap = outcome("DATA003", "only", WARNING, EXACT), outcome("LOSS008", "gap", Severity.INFO, STRONG)
    told = rank(run, [sampler, classes, majority, one, gap], catalogue())
    assert told[0].cause.name == "repeated-batches"
    assert not any(s.apart for s in told if s.cause.name == "train-val-mismatch")
    assert any(s.apart for s in rank(run, [sampler, outcome("EVAL009", "mode", CRITICAL, EXACT)], catalogue()))


def test_a_run_that_must_be_fixed_first_gets_no_forecast() -> None:
    falling = Run.of({"loss/train": learning(400), "loss/val": learning(400)})
    assert any(f.code == "LOSS004" for f in diagnose(falling).findings)
    broken = Run.of({"loss/train": [*learning(400), *[float("nan")] * 40], "loss/val": learning(400)})
    d = diagnose(broken)
    assert d.verdict in ("restart", "fix-and-resume") and not any(f.code == "LOSS004" for f in d.findings)


def test_a_rate_that_was_raised_goes_back_to_what_was_fine() -> None:
    rate = np.r_[np.full(300, 0.05), np.full(100, 20.0)]
    run = a_run(loss__train=np.r_[learning(301), np.full(99, np.nan)], lr=rate, facts={"model.outline": [{}]})
    d = diagnose(run)
    assert d.verdict == "fix-and-resume" and d.causes[0].cause.name == "lr-too-high"
    assert "from 20 to 0.05" in d.causes[0].prescription, d.causes[0].prescription


def test_a_killed_run_fails_a_job_as_a_crashed_one_does() -> None:
    killed = diagnose(a_run(loss__train=learning(1000), facts={"ended": "killed"}))
    assert killed.gravity is CRITICAL


def test_a_run_that_never_learned_is_not_resumed() -> None:
    flat = np.log(10) + 0.02 * np.random.default_rng(0).normal(size=800)
    late = outcome("EVAL004", "chance", WARNING, STRONG, (700, 799))
    told = diagnosed(a_run(loss__train=flat, facts={"model.outline": [{}], **zoo.CE10}), late)
    assert told.verdict_.resume_from in (None, 799), told.verdict_


def test_a_crawl_is_no_issue_beside_a_loss_that_was_lost() -> None:
    crawl = 2.3 - 0.01 * np.arange(50) + 0.001 * np.random.default_rng(0).normal(size=50)
    d = diagnose(a_run(loss__train=np.r_[crawl, np.full(52, np.nan)], facts={"ended": "closed", "model.outline": [{}]}))
    assert not [f for f in d.findings if f.code == "LOSS004" and f.severity > Severity.INFO]
