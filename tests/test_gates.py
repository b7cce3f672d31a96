"""Gates: the grammar, what each number stands for, exit codes, and which formats say what failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from traindx import diagnosis, testing
from traindx.cli import cli
from traindx.diagnosis import gates
from traindx.errors import TraindxError, UsageError
from traindx.report import github, junit, markdown, sarif
from traindx.run import Run

LOSSES = [2.0 / (1 + i / 20) for i in range(200)]


def _run(best: float = 0.95, seconds: float = 0.1) -> Run:
    accuracy = [best * (1 - 0.5 ** (1 + i / 10)) for i in range(198)] + [best, best - 0.1]
    return Run.of({"loss/train": LOSSES, "accuracy/val": accuracy, "time/step": [seconds] * 200})


def _gate(text: str, run: Run | None = None, *baselines: Run) -> gates.Gate:
    judged = gates.judged(diagnosis.diagnose(run or _run()), [gates.parse(text)], baselines)
    return judged.gates[0]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("val_acc >= 0.93", "passed"),
        ("val_acc >= 0.96", "failed"),
        ("last:val_acc >= 0.93", "failed"),
        ("accuracy <= 0.99", "passed"),
        ("accuracy <= 0.94", "failed"),  # by its best although the line asks for less
        ("last:loss/train<1e0", "passed"),
        ("time/step <= .2", "passed"),
        ("time/step > 2E-1", "failed"),
        ("f1 >= 0.5", "cannot-tell"),
        ("val_loss < 1", "cannot-tell"),
    ],
)
def test_requirement(text: str, result: str) -> None:
    assert _gate(text).result == result


@pytest.mark.parametrize(
    "text",
    ["", "val_acc", "val_acc = 1", "val_acc >= high", "val_acc >= 1 * base", "a >= 1; b", "__import__('os') > 1 2", "x > nan"],
)
def test_a_typing_error_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="NAME OP NUMBER"):
        gates.parse(text)


def test_the_baseline_is_a_band() -> None:
    seeds = [_run(seconds=s) for s in (0.1, 0.2, 0.9)]
    assert _gate("time/step <= 1.2 * baseline", _run(seconds=0.23), *seeds).result == "passed"
    slow = _gate("time/step <= 1.2 * baseline", _run(seconds=0.25), *seeds)
    assert slow.result == "failed" and "0.01 too high" in slow.message and "3 runs" in slow.message
    assert _gate("time/step <= 1.2 * baseline", _run(), Run.of({"loss/train": LOSSES})).result == "cannot-tell"


def test_a_share_is_not_held_against_a_percentage() -> None:
    percent = Run.of({"loss/train": LOSSES, "metric/val/acc": [5.0, 40.0, 60.0]})
    told = _gate("val_acc >= 0.93", percent)
    assert told.result == "cannot-tell" and "write 93" in told.message
    assert _gate("val_acc >= 93", percent).result == "failed"
    share = _gate("val_acc >= 93", _run())
    assert share.result == "cannot-tell" and "write 0.93" in share.message


def test_of_many_runs_those_that_fail_are_named() -> None:
    many = [gates.judged(diagnosis.diagnose(_run()), [gates.parse(f"val_acc >= {x}")]) for x in (0.9, 0.9, *[0.99] * 23)]
    told = list(gates.sentences(many))
    assert len(told) == 22 and told[-2][:2] == ("failed", "3 more") and told[-1] == ("passed", "val_acc >= 0.9", "2 of 25 runs")


def test_not_a_number_fails() -> None:
    assert _gate("last:loss/train < 1", Run.of({"loss/train": [*LOSSES, float("nan")]})).result == "failed"


def test_only_what_the_baseline_lacks_is_new() -> None:
    bad = diagnosis.diagnose(Run.of({"loss/train": [*LOSSES, *[float("nan")] * 20]}))
    assert gates.exit_code([bad], "critical") == 1
    again = gates.against(bad, [bad])
    assert not any(f.severity.value == "critical" for f in again.fresh) and gates.exit_code([again], "critical") == 0
    assert gates.exit_code([gates.against(bad, [diagnosis.diagnose(_run())])], "critical") == 1


def test_restart_fails_on_that_verdict_only() -> None:
    found = diagnosis.diagnose(_run())
    restart = replace(found, verdict_=replace(found.verdict_, name="restart"))
    assert [gates.exit_code([d], "restart") for d in (found, restart)] == [0, 1]


def test_a_crash_is_critical() -> None:
    curve = [2.3 * 0.98**i + 0.1 for i in range(300)]
    boom = {"ended": "exception", "exception": {"type": "RuntimeError", "message": "boom"}}
    by_hand = {"ended": "exception", "exception": {"type": "KeyboardInterrupt", "message": ""}}
    crashed, stopped, whole = (diagnosis.diagnose(Run.of({"loss/train": curve}, facts=f)) for f in (boom, by_hand, {}))
    assert [gates.exit_code([d], "critical") for d in (crashed, stopped, whole)] == [1, 0, 0]
    assert [gates.exit_code([crashed], how) for how in ("warning", "restart", "never")] == [1, 0, 0]
    assert crashed.verdict_.ended.startswith("The program ended with RuntimeError: boom") and crashed.verdict_.waiting == ""


def test_every_format_names_the_gate() -> None:
    failed = gates.judged(diagnosis.diagnose(_run()), [gates.parse("val_acc >= 0.99")])
    for renderer in (junit, github, markdown, sarif):
        said = renderer.render([failed])
        assert "0.04 too low" in said.replace("\\", ""), renderer.__name__
    assert "0.04 too low" in str(failed)


def _logs(folder: Path) -> Path:
    rows = [f"{i},{loss:.4f},{0.9 * (1 - 0.5 ** (1 + i / 10)):.4f}" for i, loss in enumerate(LOSSES)]
    (folder / "log.csv").write_text("step,train_loss,val_acc\n" + "\n".join(rows))
    return folder / "log.csv"


def _exit(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [str(w) for w in words], standalone_mode=False)
    code = done.exception.exit_code if isinstance(done.exception, TraindxError) else done.return_value
    return code, done.output + str(done.exception or "")


def test_exit_codes(tmp_path: Path) -> None:
    log = _logs(tmp_path)
    assert _exit("diagnose", log, "--require", "val_acc >= 0.8")[0] == 0
    code, said = _exit("diagnose", log, "--require", "val_acc >= 0.93", "--fail-on", "never")
    assert code == 1 and "failed: val_acc >= 0.93" in said
    assert _exit("diagnose", log, "--require", "f1 >= 0.8")[0] == 4
    assert _exit("diagnose", log, "--require", "val_acc => 1")[0] == 2
    assert _exit("diagnose", log, "--require", "val_acc >= 1 * baseline")[0] == 2
    assert _exit("diagnose", log, "--baseline", log)[0] == 2
    assert _exit("diagnose", log, "--new-only", "--baseline", log)[0] == 0
    code, said = _exit("diagnose", log, "--format", "json", "--require", "val_acc >= 0.93")
    assert json.loads(said)["gates"][0]["result"] == "failed"


def test_a_requirement_of_a_program_that_trains_nothing_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text("import sys; sys.exit(int(sys.argv[1]))")

    def ended(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "traindx", "run", *words]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **variables}, timeout=200)

    required = ("--require", "val_acc >= 0.9")
    done = ended(*required, "nothing.py", "0")
    assert done.returncode == 4 and "cannot tell: val_acc >= 0.9: no run was recorded" in done.stderr
    assert ended(*required, "nothing.py", "7").returncode == 7
    assert ended(*required, "nothing.py", "0", TRAINDX_DISABLE="1").returncode == 4
    assert ended(*required, sys.executable, "nothing.py", "0").returncode == 4
    late = ended("nothing.py", "0", *required)
    assert late.returncode == 0 and "--require behind nothing.py goes to nothing.py" in late.stderr


def test_in_a_test_suite() -> None:
    testing.assert_healthy(_run(), require="val_acc >= 0.93", ignore=("EVAL", "LOSS"))
    with pytest.raises(AssertionError, match="too low"):
        testing.assert_healthy(_run(), require=("val_acc >= 0.99",), ignore=("EVAL", "LOSS"))
