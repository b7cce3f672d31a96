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
        timeout=900,
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
        (["explain", "GRAD02"], 2, "did you mean GRAD002"),
        (["diagnose", "--select", "GRAD02", "log.csv"], 2, "did you mean GRAD002"),
        (["diagnose", "train.py"], 3, "traindx run train.py"),
        (["diagnose", "--formt", "json", "log.csv"], 2, "traindx diagnose --help"),
        (["diagnose"], 2, "for example"),
        (["diagnose", "--select", "NOPE", "log.csv"], 2, "NOPE"),
        (["diagnose", "--format", "pdf", "log.csv"], 2, "pdf"),
        (["diagnose", "--map", "x", "log.csv"], 2, "COLUMN=SIGNAL"),
    ],
)
def test_bad_calls_say_what_and_how(args: list[str], code: int, told: str, healthy: Path) -> None:
    (healthy.parent / "train.py").write_text("import torch\n")
    done = traindx(*args, cwd=healthy.parent)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.startswith("traindx: "), "errors have one prefix"
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
    assert {"code", "name", "family", "summary", "needs", "severity", "stable", "package"} == set(rows[0])


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


def without_torch(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command line in a Python in which torch is not installed."""
    code = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "torch" else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from traindx.cli import main
main(sys.argv[1:])
"""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, cwd=cwd, timeout=900, check=False
    )


@pytest.mark.parametrize(
    "words",
    [
        ("check", "train.py"),
        ("check", "train.py:make_task"),
        ("trial", "lr-range", "train.py"),
        ("trial", "overfit", "train.py:make_task"),
        ("replay", "."),
        ("sweep", "lr-range", "train.py:make_task"),
        ("diagnose", "log.csv", "--investigate", "train.py"),
        ("run", "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"),
    ],
)
def test_verbs_that_train_say_what_to_install_where_torch_is_missing(
    words: tuple[str, ...], healthy: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    done = without_torch(*words, cwd=tmp_path)
    assert done.returncode == 5, done.stderr
    assert "torch is not installed" in done.stderr and "pip install torch" in done.stderr and "bug" not in done.stderr


def test_run_without_torch_runs_the_script_unobserved_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import sys\nprint('ran', *sys.argv[1:])\nsys.exit(3)\n")
    done = without_torch("run", "plain.py", "--epochs", "2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "ran --epochs 2\n")
    assert "torch is not installed" in done.stderr and "unobserved" in done.stderr
    quiet = without_torch("run", "--quiet", "plain.py", cwd=tmp_path)
    assert (quiet.returncode, quiet.stderr) == (3, "")


TASK = """
import torch
from traindx import Task

def make():
    model = torch.nn.Linear(3, 2)
    data = [(torch.randn(8, 3), torch.randint(0, 2, (8,))) for _ in range(4)]
    return Task(model, torch.nn.functional.cross_entropy, data, None, torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize("words", [("--picture", "x.bmp"), ("--picture", "no/where/x.svg"), ("-o", "no/where/x.json")])
def test_an_answer_is_not_lost_because_something_cannot_be_written(words: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "t.py").write_text(TASK)
    done = traindx("trial", "one-step", "t.py:make", *words, "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["result"] == "pass", done.stderr
    assert done.returncode in (2, 5) and words[1] in done.stderr
