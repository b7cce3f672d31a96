"""What a page says: a short headline, why, what to do, what to do until then; several issues numbered; remarks quiet."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from each import each
from runs import a_run, learning
from traindx import cause
from traindx.diagnosis import Diagnosis, diagnose
from traindx.diagnosis.posterior import rank
from traindx.diagnosis.story import tell
from traindx.diagnosis.verdict import judge
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.report import issues, narrative
from traindx.report.text import plain
from traindx.report.words import sparkline
from traindx.rule import catalogue
from traindx.run import Run


def found(code: str, severity: Severity, message: str, fix: str, variant: str = "", steps: tuple[int, int] = (5, 9)) -> Outcome:
    confidence = Confidence.EXACT if severity > Severity.INFO else Confidence.STRONG
    return Outcome(
        code, Status.FOUND, (Finding(code, "x", severity, confidence, message, (), steps, {}, (), fix, variant=variant),)
    )


def diagnosed(*outcomes: Outcome, run: Run | None = None) -> Diagnosis:
    run = run or a_run({"loss/train": learning(400)}, facts={"model.outline": []})
    stories, causes = tell(outcomes, catalogue()), rank(run, outcomes, catalogue())
    return Diagnosis(run, outcomes, stories, causes, judge(run, outcomes, stories, causes))


SOFTMAX = found("WIRE006", Severity.CRITICAL, "softmax goes into a cross-entropy", "Remove the softmax.", "softmax")
DROPOUT = found("EVAL009", Severity.WARNING, "evaluations ran in training mode", "Call model.eval().", "mode")
FALLING = found("LOSS004", Severity.INFO, "the loss still falls", "Let it run.")


@each([r.headline for r in catalogue().values()] + [c.title for c in cause.catalogue().values()])
def test_every_headline_is_short_and_has_at_most_one_number(title: str) -> None:
    assert len(title.split()) <= 11, "with 'Probably' in front it must still have at most 12 words"
    assert len(re.findall(r"\d+", title)) <= 1 and not title.endswith(".")


def test_one_issue_says_why_what_to_do_and_what_until_then() -> None:
    page = plain(diagnosed(SOFTMAX), 100)
    assert re.search(r"RESTART +An activation is applied twice", page)
    for label, said in (("why", "softmax goes into"), ("do", "Remove the softmax."), ("until then", "Stop this run")):
        assert re.search(rf"^  {label} +{re.escape(said)}", page, re.M), label
    assert "After the fix, start again." in " ".join(page.split()) and not re.search(r"^ *1\. ", page, re.M)


def test_two_issues_are_numbered_worst_first_each_with_its_own_cure() -> None:
    page = plain(diagnosed(DROPOUT, SOFTMAX), 100)
    first, second = page.index("1. An activation"), page.index("2. ")
    assert first < page.index("Remove the softmax.") < second < page.index("Call model.eval().")


def test_a_finding_that_no_cause_explains_is_an_issue_of_its_own() -> None:
    rare = found("PERF008", Severity.WARNING, "half of the time goes into logging", "Log less often.", "logging")
    told = issues.issues(diagnosed(SOFTMAX, rare))
    assert [i.do for i in told] == ["Remove the softmax.", "Log less often."]


def test_a_remark_gives_no_advice_under_an_alarm() -> None:
    assert "Let it run." not in plain(diagnosed(SOFTMAX, FALLING))
    assert "Also noticed" in plain(diagnosed(SOFTMAX, FALLING))
    assert "Let it run." not in plain(diagnosed(FALLING)) and "the loss still falls" in plain(diagnosed(FALLING))


def test_an_alarm_has_no_forecast() -> None:
    broken = learning(1500)
    broken[1200:] = np.nan
    d = diagnose(a_run(loss__train=broken))
    assert d.alarmed and d.verdict_.forecast is None and "forecast" not in plain(d)


def test_the_counts_say_what_was_checked_and_why_not_the_rest() -> None:
    d = diagnosed(SOFTMAX, Outcome("A", Status.CLEAR), Outcome("B", Status.BLIND), Outcome("C", Status.MUTED))
    assert issues.checked(d) == "Checked 2 of 4 conditions (1 needs data this run does not have; 1 does not apply)."


def test_going_back_to_the_first_step_is_called_starting_again() -> None:
    bad = learning(400)
    bad[1:] = np.nan
    assert "step 0" not in diagnose(a_run(loss__train=bad)).verdict_.start


def test_the_command_that_confirms_names_the_script() -> None:
    run = a_run({"loss/train": learning(400)}, facts={"model.outline": [], "script": "/elsewhere/my train.py"})
    d = diagnosed(found("LOSS001", Severity.CRITICAL, "the loss rose", "", "risen"), run=run)
    told = next(c for c in d.causes if c.cause.settle)
    assert issues.confirm(d, told).startswith(f"traindx trial {told.cause.settle} '/elsewhere/my train.py'")


def test_a_flat_series_is_drawn_flat() -> None:
    assert len(set(sparkline(np.array([2.214, 2.206, 2.207, 2.206])))) == 1
    assert len(set(sparkline(np.array([100.0, 100.4, 99.9])))) == 1
    assert len(set(sparkline(np.array([2.2, 2.0, 1.7])))) > 1


def test_a_fault_that_lasts_is_shaded_to_the_end_of_the_run() -> None:
    run = a_run({"loss/train": learning(400)})
    lasting = Finding("X", "x", Severity.WARNING, Confidence.EXACT, "m", (), (5, 399), {}, ("loss/train",), "")
    sparse = run.with_({"grad_norm": a_run({"g": [1.0, 2.0]}, steps=[0, 300]).signals["g"]})
    late = Finding("X", "x", Severity.WARNING, Confidence.EXACT, "m", (), (5, 300), {}, ("grad_norm",), "")
    over = Finding("X", "x", Severity.WARNING, Confidence.EXACT, "m", (), (5, 90), {}, ("loss/train",), "")
    assert narrative._lasting(lasting, run) == (5, 399)
    assert narrative._lasting(late, sparse) == (5, 399)
    assert narrative._lasting(over, run) == (5, 90)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    run = replace(a_run({"loss/train": learning(400)}, facts={"model.outline": []}), source="experiments/" + "long" * 20)
    page = plain(diagnosed(DROPOUT, SOFTMAX, FALLING, run=run), width)
    assert max(len(line.rstrip()) for line in page.splitlines()) <= width
    assert "…" not in page.replace("· …", "") and "steps 0–399" in page


def test_a_log_that_counts_epochs_is_spoken_of_in_epochs() -> None:
    rising = {"loss/train": np.linspace(2, 0.05, 60), "loss/val": np.r_[np.linspace(2, 1, 20), np.linspace(1, 1.8, 40)]}
    page = plain(diagnose(a_run(rising, facts={"step_unit": "epoch"})), 200)
    assert "epochs 0–59" in page and "checkpoint of epoch 19" in page and not re.search(r"\bsteps? \d", page)


def test_a_cause_that_is_unlikely_is_neither_the_headline_nor_a_rival() -> None:
    d = diagnosed(found("WIRE007", Severity.WARNING, "mse loss on class ids", "Use cross_entropy.", "ids"))
    assert d.causes and all(c.possible or c.cause.title not in d.verdict_.headline.lower() for c in d.causes)
    assert "unlikely" not in plain(d)


def test_a_replay_is_named_only_where_a_step_was_kept() -> None:
    bad = learning(400)
    bad[300:] = np.nan
    page = " ".join(plain(diagnose(a_run(loss__train=bad))).split())
    assert "to confirm traindx run train.py" in page and "CAPSULE" not in page
