"""From outcomes to one story, a cause and a verdict."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run, learning, noise
from traindx.cause import catalogue as causes
from traindx.cli.options import exit_code
from traindx.diagnosis import Diagnosis, Verdict, diagnose
from traindx.diagnosis.place import mended_at
from traindx.diagnosis.posterior import rank
from traindx.diagnosis.story import tell
from traindx.diagnosis.verdict import judge, said_by
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.rule import catalogue
from traindx.run import Run
from traindx.testing import assert_healthy


def finding(code: str, severity: Severity = Severity.WARNING, confidence: Confidence = Confidence.STRONG) -> Outcome:
    f = Finding(code, catalogue()[code].name, severity, confidence, f"{code} speaks", (), (5, 9), {}, (), "")
    return Outcome(code, Status.FOUND, (f,))


def test_a_root_folds_its_consequences() -> None:
    stories = tell(
        [finding("GRAD002"), finding("WIRE004", Severity.CRITICAL, Confidence.EXACT), finding("OPTM002")], catalogue()
    )
    assert [s.root.code for s in stories] == ["WIRE004"]
    assert {f.code for f in stories[0].consequences} == {"GRAD002", "OPTM002"}


def test_a_hypothesis_explains_nothing_away() -> None:
    stories = tell(
        [finding("LOSS001", Severity.CRITICAL), finding("OPTM002", Severity.INFO, Confidence.SUGGESTIVE)], catalogue()
    )
    assert stories[0].root.code == "LOSS001" and not stories[0].consequences


def test_worst_story_comes_first() -> None:
    stories = tell([finding("LOSS007", Severity.INFO), finding("EVAL001", Severity.CRITICAL)], catalogue())
    assert [s.root.code for s in stories] == ["EVAL001", "LOSS007"]


def test_a_fact_outweighs_its_symptoms() -> None:
    outcomes = [
        finding("WIRE004", Severity.CRITICAL, Confidence.EXACT),
        finding("GRAD002"),
        finding("LOSS001", Severity.CRITICAL),
    ]
    top = rank(a_run(), outcomes, catalogue())[0]
    assert "WIRE004" in top.supports and top.probability > 0.8


def fact(code: str, variant: str) -> Outcome:
    f = Finding(code, "x", Severity.WARNING, Confidence.EXACT, f"{code} speaks", (), (5, 9), {}, (), "", variant=variant)
    return Outcome(code, Status.FOUND, (f,))


def watched() -> Run:
    return a_run(facts={"model.outline": []})


def test_two_faults_are_two_troubles_and_the_worse_comes_first() -> None:
    outcomes = [finding("DATA005", Severity.CRITICAL), fact("EVAL009", "mode")]
    causes = rank(watched(), outcomes, catalogue())
    assert "DATA005" in causes[0].supports and not causes[0].apart
    assert "EVAL009" in causes[1].supports and causes[1].apart
    verdict = judge(watched(), outcomes, tell(outcomes, catalogue()), causes)
    assert verdict.name != "fix-evaluation" and verdict.besides == "EVAL009 speaks."


def test_a_symptom_does_not_come_before_the_fact_that_leaves_it_out() -> None:
    outcomes = [fact("WIRE012", ""), said("LOSS001", "risen", Severity.CRITICAL)]
    causes = rank(watched(), outcomes, catalogue())
    assert "WIRE012" in causes[0].supports and [c.apart for c in causes[:2]] == [False, True]


def test_what_the_first_cause_explains_is_no_trouble_apart() -> None:
    outcomes = [finding("WIRE004", Severity.CRITICAL, Confidence.EXACT), finding("LOSS001", Severity.CRITICAL)]
    assert not any(c.apart for c in rank(a_run(), outcomes, catalogue()))


def test_the_reason_is_what_only_the_named_cause_shows() -> None:
    outcomes = [finding("OPTM002", Severity.CRITICAL, Confidence.EXACT), finding("DATA002"), finding("LOSS010")]
    causes = rank(watched(), outcomes, catalogue())
    scaled = next(c for c in causes if c.cause.name == "unscaled-inputs")
    told = said_by(scaled, [f for o in outcomes for f in o.findings])
    assert told is not None and told.code == "DATA002"  # a large first step has many causes


def test_nothing_counts_for_a_cause_and_against_it() -> None:
    outcomes = [said("NUMR001", "norms", Severity.CRITICAL), finding("NUMR004", Severity.CRITICAL, Confidence.EXACT)]
    causes = rank(watched(), outcomes, catalogue())
    assert causes and not any(set(c.supports) & set(c.against) for c in causes)


def test_a_rate_that_was_raised_is_no_noise_floor() -> None:
    causes = rank(watched(), [said("OPTM013", "raised")], catalogue())
    assert causes[0].cause.name == "lr-too-high"


def test_what_has_no_effect_explains_nothing() -> None:
    outcomes = [said("EVAL009", "harmless", Severity.INFO), finding("EVAL002", Severity.INFO)]
    assert {s.root.code for s in tell(outcomes, catalogue())} == {"EVAL009", "EVAL002"}


def test_nothing_found_means_no_cause() -> None:
    assert rank(a_run(), [Outcome("LOSS001", Status.CLEAR)], catalogue()) == ()


def test_a_short_run_cannot_be_judged() -> None:
    d = diagnose(a_run(loss__train=[2.3, 2.2, 2.1]))
    assert d.verdict == "cannot-tell" and d.verdict_.needs


def test_a_program_that_broke_is_not_healthy() -> None:
    error = {"type": "OSError", "message": "disk full", "file": "/home/x/train.py", "line": 9}

    def told(losses: object, **facts: object) -> tuple[str, str, int | None]:
        v = diagnose(a_run({"loss/train": losses} if losses is not None else {}, facts=facts)).verdict_
        return v.name, v.summary, v.resume_from

    broke = {"ended": "exception", "exception": error}
    name, summary, _ = told(None, **broke)
    assert name == "cannot-tell" and "before its first update" in summary and "OSError: disk full (train.py:9)" in summary
    assert told([2.0, 1.0], **broke)[0] == "cannot-tell"
    name, summary, resume = told(learning(400), **broke)
    assert name == "fix-and-resume" and resume == 399 and "No problem found in its training" in summary
    by_hand = {"ended": "exception", "exception": {"type": "KeyboardInterrupt", "message": ""}}
    assert told(learning(400), **by_hand)[0] in ("healthy", "wait")


def test_an_exit_code_of_the_program_is_told() -> None:
    run = a_run({"loss/train": learning(400)}, facts={"ended": "exit", "exit.code": 3})
    left = diagnose(run)
    assert "exit code 3" in str(left) and left.verdict == diagnose(run.with_(facts={"exit.code": None})).verdict


def test_a_falling_curve_is_left_alone() -> None:
    d = diagnose(a_run(loss__train=learning(1500)))
    assert d.verdict in ("healthy", "wait") and d.worst in (None, Severity.INFO)


def test_a_nan_run_is_one_story() -> None:
    loss = learning(400)
    loss[300:] = np.nan
    d = diagnose(a_run(loss__train=loss))
    alarms = [s for s in d.stories if s.severity > Severity.INFO]
    assert len(alarms) == 1
    assert d.verdict in ("fix-and-resume", "restart")


def test_overfitting_says_stop_and_keep_the_best() -> None:
    train = learning(4000, floor=0.05, sd=0.02)
    steps = np.arange(0, 4000, 100)
    val = 0.6 + 1.7 * np.exp(-steps / 300) + 0.00025 * np.maximum(0, steps - 1000) + noise(40, 0.01, 3)
    run = a_run(loss__train=train)
    from traindx.run import Series

    d = diagnose(run.with_({"loss/val": Series(steps, val)}))
    assert d.verdict == "stop-keep-best", d


def test_the_same_run_gives_the_same_words() -> None:
    run = a_run(loss__train=np.r_[learning(300), np.geomspace(0.4, 80, 200)])
    assert str(diagnose(run)) == str(diagnose(run))


def test_a_page_never_shows_control_characters() -> None:
    from dataclasses import replace

    run = replace(a_run(loss__train=learning(400)), source="evil\x1b[2Jname\u202e", notes=("\x07bell",))
    text = str(diagnose(run))
    assert not any(c in text for c in "\x1b\x07\u202e")


def test_a_plateau_without_an_alarm_has_hypotheses_and_is_not_called_healthy() -> None:
    loss = np.r_[np.geomspace(3.0, 1.0, 200), np.full(1800, 1.0)] + noise(2000, 0.01)
    d = diagnose(a_run(loss__train=loss))
    assert {f.code for f in d.findings} >= {"LOSS003"} and d.worst is Severity.INFO
    assert d.verdict == "cannot-tell" and d.causes and d.causes[0].probability < 0.5


def test_a_plateau_far_below_where_it_began_is_the_end_of_a_healthy_run() -> None:
    fast, slow = (np.exp(-np.arange(2000) / steps) for steps in (15, 120))
    loss = 0.2 + 1.4 * fast + 1.4 * slow + noise(2000, 0.01)
    d = diagnose(a_run(loss__train=loss))
    assert {f.code for f in d.findings} >= {"LOSS003"}
    assert d.verdict == "healthy" and not d.causes


def test_a_rise_too_small_for_an_alarm_still_says_keep_the_best() -> None:
    remark = finding("LOSS008", Severity.INFO)
    verdict = judge(a_run(loss__train=learning(400)), [remark], tell([remark], catalogue()), ())
    assert verdict.name == "stop-keep-best"


def test_trouble_that_began_late_is_resumed_from_before_it() -> None:
    def told(onset: int) -> str:
        f = Finding("OPTM002", "x", Severity.CRITICAL, Confidence.STRONG, "m", (), (onset, 999), {}, (), "")
        outcomes = [Outcome("OPTM002", Status.FOUND, (f,))]
        run = a_run(loss__train=learning(1000))
        verdict = judge(run, outcomes, tell(outcomes, catalogue()), rank(run, outcomes, catalogue()))
        return f"{verdict.name} {verdict.resume_from}"

    assert told(3) == "restart None"
    assert told(600) == "fix-and-resume 599"


def test_the_summary_puts_behind_a_cause_what_speaks_for_it() -> None:
    outcomes = [
        finding("DATA006", Severity.CRITICAL, Confidence.EXACT),
        finding("NUMR001", Severity.CRITICAL, Confidence.EXACT),
    ]
    stories = tell(outcomes, catalogue())
    causes = rank(a_run(), outcomes, catalogue())
    for first in causes:
        others = [first, *(c for c in causes if c is not first)]
        said = judge(a_run(), outcomes, stories, others).summary
        spoken = next(o.code for o in outcomes if o.code in said)
        assert not first.supports or spoken in first.supports or first.probability < 0.33, (said, first.supports)


def test_a_remark_is_weighed_against_how_often_sound_runs_show_it() -> None:
    from traindx.diagnosis.posterior import _rates, _remark_rate

    assert _remark_rate("EVAL002", "") > 0.2  # a third of all healthy runs has an evaluation that is too coarse
    assert _remark_rate("TUNE004", "none") < 0.1 and _remark_rate("NEWS001", "") == 0.1
    assert set(_rates()) <= set(catalogue())


def test_without_an_alarm_a_remark_names_hypotheses_and_accuses_nobody() -> None:
    steps = np.arange(0, 800, 40)
    run = a_run(loss__train=learning(800))
    from traindx.run import Series

    d = diagnose(run.with_({"loss/val": Series(steps, 0.7 + noise(20, 0.15, 1))}))
    assert {f.code for f in d.findings} >= {"EVAL002"} and not d.alarmed
    assert "validation-too-small" in [c.cause.name for c in d.causes] and not d.likely
    assert d.verdict in ("healthy", "wait", "cannot-tell")  # validation shows nothing at all
    assert "Other possible issues" not in str(d) and "Evidence" not in str(d)  # what is unlikely only tires the reader


def test_batches_that_come_back_extreme_are_the_data_and_not_the_rate() -> None:
    outcomes = [
        said("LOSS007", "repeating"),
        finding("GRAD002"),
        said("LOSS001", "excursion"),
        finding("LOSS005"),
    ]
    assert rank(a_run(), outcomes, catalogue())[0].cause.name == "outlier-batches"


def said(code: str, variant: str, severity: Severity = Severity.WARNING) -> Outcome:
    f = Finding(code, "x", severity, Confidence.STRONG, "m", (), (5, 9), {}, (), "", variant=variant)
    return Outcome(code, Status.FOUND, (f,))


def test_every_course_says_from_where_what_waiting_costs_and_what_would_refute_it() -> None:
    from traindx.run import Event, Series

    pace = {"time/step": Series(np.arange(400), np.full(400, 2.0))}
    falling = a_run(loss__train=learning(1500))
    broken = learning(400)
    broken[300:] = np.nan
    nan = a_run(loss__train=broken).with_(pace)
    saved = nan.with_(events=[Event(250, "checkpoint"), Event(350, "checkpoint")])
    risen = a_run(loss__train=np.r_[learning(300), np.geomspace(0.4, 80, 200)])
    for run in (falling, nan, saved, risen):
        v = diagnose(run).verdict_
        assert v.name in ("wait", "fix-and-resume", "restart"), v
        assert v.start and v.waiting and v.would_change, v
        assert ("until then" if diagnose(run).alarmed else "next") in str(diagnose(run))
    assert "or the last checkpoint before it" in diagnose(nan).verdict_.start
    assert "the checkpoint of step 250" in diagnose(saved).verdict_.start
    assert "101 steps (about 3 min)" in diagnose(saved).verdict_.waiting
    assert "more should bring the loss from" in diagnose(falling).verdict_.waiting


def test_numbers_are_shown_only_where_calibration_earned_them() -> None:
    from dataclasses import replace

    log = a_run(loss__train=np.r_[learning(300), np.geomspace(0.4, 80, 200)])
    seen = replace(log, kind="record")
    first, same = diagnose(log).causes[0], diagnose(seen).causes[0]
    assert first.probability == same.probability and not first.earned and same.earned
    assert "%" in same.said and "%" not in first.said
    told = f"({100 * first.probability:.0f} %)"
    assert told not in str(diagnose(log)) and told in str(diagnose(seen))
    from traindx.report.json import report

    assert report(diagnose(log))["diagnosis"]["causes"][0]["calibrated"] is False


def test_a_prescription_names_the_parameters_and_not_the_line() -> None:
    where = ("head.weight", "/home/me/train.py:9")
    f = Finding("WIRE001", "x", Severity.CRITICAL, Confidence.EXACT, "m", where, (5, 9), {}, (), "")
    top = rank(watched(), [Outcome("WIRE001", Status.FOUND, (f,))], catalogue())[0]
    assert "head.weight" in top.prescription and "train.py" not in top.prescription


def test_a_restart_is_critical_for_builds_whatever_its_findings_are() -> None:
    run = a_run(loss__train=learning(300))
    outcome = finding("OPTM002")
    story = tell([outcome], catalogue())
    told = Diagnosis(run, (outcome,), story, (), Verdict("restart", "Start again."))
    assert told.worst is Severity.WARNING and told.gravity is Severity.CRITICAL
    assert exit_code([told], "critical") == 1 and exit_code([told], "never") == 0
    mild = Diagnosis(run, (outcome,), story, (), Verdict("fix-and-resume", "Mend it."))
    assert exit_code([mild], "critical") == 0 and exit_code([mild], "warning") == 1
    with pytest.raises(AssertionError, match="restart"):
        assert_healthy(told, least="critical")
    assert_healthy(told, least="critical", ignore=("OPTM",))


def test_a_symptom_is_given_the_line_of_its_cause() -> None:
    sites = {"optimizer": "/home/me/train.py:12", "loader": "/home/me/train.py:5"}
    rising = np.concatenate([learning(100), np.linspace(0.5, 90.0, 200)])
    d = diagnose(Run.of({"loss/train": rising, "update_ratio/group0": np.full(300, 0.3)}, facts={"code.sites": sites}))
    [loss] = [f for f in d.findings if f.code == "LOSS001"]
    at = mended_at(d.causes[0].cause, catalogue())
    assert d.causes[0].cause.name == "lr-too-high" and at == "optimizer rate"
    assert loss.where[-1:] == ("/home/me/train.py:12",)


def test_a_cause_that_no_rule_places_has_no_line() -> None:
    assert not mended_at(causes()["saddle"], catalogue())
    assert mended_at(causes()["class-without-weight"], catalogue()) == "loss criterion"
