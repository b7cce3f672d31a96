"""Every format says the same and shows text from logs as text."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import jsonschema
import numpy as np
import pytest
from rich.console import Console

from runs import a_run, learning
from traindx import importers
from traindx.diagnosis import Diagnosis, common, diagnose
from traindx.diagnosis.row import row as row_of
from traindx.finding import Status
from traindx.report import github, html, junit, markdown, sarif, sweep, text
from traindx.report import json as json_
from traindx.report.words import safe, sparkline, sparklines
from traindx.run import Series


@pytest.fixture(scope="module")
def sick() -> Diagnosis:
    run = a_run(loss__train=np.r_[learning(300), np.geomspace(0.4, 80, 200)])
    return diagnose(replace(run, source="<script>alert(1)</script>|`x`\x1b[31m"))


def test_json_follows_the_schema(sick: Diagnosis) -> None:
    jsonschema.validate(json.loads(json_.render([sick])), json.loads(json_.SCHEMA.read_text()))
    jsonschema.validate(json.loads(json_.render([sick, sick])), json.loads(json_.SCHEMA.read_text()))


def test_numbers_that_are_not_finite_are_strings() -> None:
    assert json_.plain({"a": [float("nan"), np.float32("inf"), -np.inf]}) == {"a": ["nan", "inf", "-inf"]}


def test_sarif_names_every_finding(sick: Diagnosis) -> None:
    document = json.loads(sarif.render([sick]))
    assert document["version"] == "2.1.0"
    [run] = document["runs"]
    assert {r["ruleId"] for r in run["results"]} == {f.code for f in sick.findings}
    assert all(run["tool"]["driver"]["rules"][r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])


def test_junit_fails_what_is_found(sick: Diagnosis) -> None:
    root = ET.fromstring(junit.render([sick]).split("\n", 1)[1])
    failed = {c.get("name", "").split()[0] for c in root.iter("testcase") if c.find("failure") is not None}
    assert "LOSS001" in failed
    [suite] = root
    assert int(suite.get("failures", "0")) == len(failed)


def test_github_lines_cannot_be_broken_out_of() -> None:
    run = a_run(loss__train=np.r_[learning(300), np.geomspace(0.4, 80, 200)])
    d = diagnose(run)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in github.render([d]).splitlines())


def test_markdown_makes_nothing_of_a_log(sick: Diagnosis) -> None:
    page = markdown.render([sick])
    assert "<script>" not in page and "\x1b" not in page


def test_the_terminal_page_has_no_escape_from_a_log(sick: Diagnosis) -> None:
    assert "\x1b" not in text.plain(sick)


@pytest.mark.parametrize("evil", ["\x1b]0;title\x07x", "a\u202eb", "\x9b31m", "\x00", "\x1bPq\x1b\\"])
def test_safe_takes_control_characters_out(evil: str) -> None:
    assert all(c.isprintable() for c in safe(evil))


def test_a_sparkline_marks_what_is_not_finite() -> None:
    assert "×" in sparkline(np.array([1.0, 2.0, np.nan, 4.0]))
    assert sparkline(np.array([])) == ""
    assert set(sparkline(np.array([np.nan, np.inf]))) == {"×"}


def test_sparklines_stand_below_one_another_by_step() -> None:
    steps = np.arange(100)
    loss = Series(steps, np.where(steps < 80, 2.0 - steps / 100, np.nan))
    norm = Series(np.r_[0, 40, steps[80:90]], np.r_[1.0, 2.0, np.full(10, np.nan)])
    above, below = sparklines([("loss/train", loss), ("grad_norm", norm)], 20)
    assert len(above) == 20 and above.index("×") == below.index("×") == 16
    assert below == "▁" * 8 + "█" * 8 + "××"
    assert sparklines([("loss/train", Series(np.arange(3), np.array([1.0, 3.0, 2.0])))], 20) == ["▁█▅"]


def test_the_page_of_a_log_says_what_columns_were_taken_for_and_how_to_see_more() -> None:
    rows = {"iter": list(range(80)), "objective": [2 / (1 + i / 9) for i in range(80)], "odd one": [0.5] * 80}
    [run] = importers.read(rows)
    diagnosis = diagnose(run)
    page = " ".join(text.plain(diagnosis).split())
    assert "loss/train ← objective" in page and "step ← iter" in page and "odd one" in page and "--map" in page
    assert "Logging loss/val, lr, grad_norm would allow" in page and "traindx run" in page
    assert json_.report(diagnosis)["run"]["columns"]["objective"] == "loss/train"
    reasons = {o.code: o.reason for o in diagnosis.with_status(Status.BLIND)}
    assert reasons["GRAD002"].endswith("next time log grad_norm")
    assert reasons["ACTV001"].endswith("next time observe with `traindx run`, which records it")


def test_every_place_of_a_page_about_several_runs_has_its_own_name(sick: Diagnosis) -> None:
    page = html.render([sick, sick])
    names = re.findall(r' id="([^"]+)"', page)
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(names)
    assert {"LOSS001", "run1-LOSS001"} <= set(names)


def test_the_table_of_runs_keeps_names_and_verdicts_whole(sick: Diagnosis) -> None:
    far = replace(sick.run, source="/a/very/very/long/way/down/to/some/folder/of/many/experiments/run-17")
    console = Console(file=io.StringIO(), width=100)
    near = replace(sick.run, source="/a/very/very/long/way/down/to/some/folder/of/many/experiments/run-18")
    console.print(sweep.table(common.sweep([row_of(diagnose(far)), row_of(diagnose(near))]), 100))
    heading, row, *_ = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert row.startswith("run-17") and diagnose(far).verdict in row and "headline" in heading
