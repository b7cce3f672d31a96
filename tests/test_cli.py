"""The command line keeps its contract."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from runs import learning
from traindx.cli import verbs
from traindx.report.json import SCHEMA


def traindx(*args: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "traindx", *map(str, args)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"NO_COLOR": "1", **env},
        timeout=120,
        check=False,
    )


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n" + "\n".join(f"{i},{v:.5f}" for i, v in enumerate(learning(600))))
    return path


@pytest.fixture
def diverged(tmp_path: Path) -> Path:
    path = tmp_path / "bad.csv"
    values = np.r_[learning(300), np.geomspace(0.4, 80, 200)]
    path.write_text("step,loss\n" + "\n".join(f"{i},{v:.5f}" for i, v in enumerate(values)))
    return path


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    done = traindx(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert "Example" in done.stdout


def test_a_healthy_run_exits_0_and_follows_the_schema(healthy: Path) -> None:
    done = traindx("diagnose", healthy, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    assert report["diagnosis"]["verdict"] in ("healthy", "wait")


def test_a_sick_run_exits_1(diverged: Path) -> None:
    done = traindx("diagnose", diverged)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "LOSS001" in done.stdout


def test_fail_on_never_exits_0(diverged: Path) -> None:
    assert traindx("diagnose", diverged, "--fail-on", "never").returncode == 0


def test_several_runs_are_a_table_worst_first(healthy: Path, diverged: Path) -> None:
    done = traindx("diagnose", healthy, diverged, "--format", "json")
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    assert "bad.csv" in report["reports"][0]["run"]["source"]


def test_the_report_goes_where_it_was_asked_to(healthy: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report.json"
    done = traindx("diagnose", healthy, "--format", "json", "-o", out)
    assert done.stdout == "" and json.loads(out.read_text())["schema"] == "traindx.report/1"


def test_quiet_prints_nothing_about_a_healthy_run(healthy: Path) -> None:
    done = traindx("diagnose", healthy, "--quiet")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["diagnose", "not/there"], 3, "not/there"),
        (["diagnos", "x"], 2, "diagnose"),
        (["explain", "GRAD999"], 2, "GRAD"),
        (["diagnose", "--select", "NOPE", "log.csv"], 2, "NOPE"),
        (["diagnose", "--format", "pdf", "log.csv"], 2, "pdf"),
        (["diagnose", "--map", "x", "log.csv"], 2, "COLUMN=SIGNAL"),
    ],
)
def test_bad_calls_say_what_and_how(args: list[str], code: int, told: str, healthy: Path) -> None:
    done = traindx(*args, cwd=healthy.parent)
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_limits_come_from_the_settings_file(diverged: Path) -> None:
    (diverged.parent / "traindx.toml").write_text("[rules.LOSS001]\nnope = 1\n")
    done = traindx("diagnose", "bad.csv", cwd=diverged.parent)
    assert done.returncode == 2 and "LOSS001 has no limit 'nope'" in done.stderr


def test_an_ansi_bomb_in_a_name_is_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31mred.csv"
    path.write_text("step,loss\n" + "\n".join(f"{i},{v:.5f}" for i, v in enumerate(learning(300))))
    done = traindx("diagnose", path)
    assert "\x1b" not in done.stdout


def test_rules_as_json_carry_the_contract() -> None:
    rows = json.loads(traindx("rules", "--format", "json").stdout)
    assert {"code", "name", "family", "summary", "needs", "severity", "stable"} == set(rows[0])


def test_a_page_fits_a_narrow_terminal(diverged: Path) -> None:
    done = traindx("diagnose", diverged, COLUMNS="48")
    assert max(map(len, done.stdout.splitlines())) <= 48


def test_follow_speaks_again_when_the_findings_change_and_ends_quietly_on_ctrl_c(healthy: Path) -> None:
    words = [sys.executable, "-m", "traindx", "diagnose", str(healthy), "--follow", "--format", "json"]
    following = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = _next_report(following)
        assert first["diagnosis"]["verdict"] in ("healthy", "wait")
        with healthy.open("a") as log:
            log.write("\n" + "\n".join(f"{600 + i},nan" for i in range(50)) + "\n")
        second = _next_report(following)
        assert "NUMR001" in {f["code"] for f in second["findings"]}
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=30)
    finally:
        following.kill()
    assert following.returncode == 1  # a critical finding, as without --follow
    assert "Traceback" not in err


def _next_report(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next JSON document on the process's stdout; the decoder says when it is whole."""
    text = ""
    for line in process.stdout or ():
        text += line
        if line.startswith("}"):
            return json.loads(text)
    raise AssertionError(f"the process ended: {text}")


def test_follow_wants_one_path_that_exists(tmp_path: Path) -> None:
    for paths in (["-"], [tmp_path / "a", tmp_path / "b"], [tmp_path / "absent"]):
        assert traindx("diagnose", *paths, "--follow").returncode == 2


def test_an_output_without_unicode_gets_plain_signs(healthy: Path) -> None:
    done = traindx("diagnose", healthy, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0 and done.stdout.isascii() and "steps 0-" in done.stdout and " -> " in done.stdout
    assert "?" not in done.stdout


def test_the_doctor_names_the_extras() -> None:
    told = traindx("doctor").stdout
    assert "traindx[arrow]" in told and "traindx[tui]" in told  # brackets are no markup
