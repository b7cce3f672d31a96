"""What a person may throw at the command line and its settings (rows 1 to 36 of the reference): a line and a code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runs import learning
from traindx import cli

TOML = {
    "empty": (b"", 0, ""),
    "bom-and-crlf": (b'\xef\xbb\xbf[tool.traindx]\r\nfail-on = "never"\r\n', 0, ""),
    "utf-16": ('[tool.traindx]\nfail-on = "never"\n'.encode("utf-16"), 2, "UTF-8"),
    "unknown-key": (b'fail_on = "never"', 2, "did you mean 'fail-on'"),
    "twice-the-same-key": (b"ignore = []\nignore = []\n", 2, "Cannot overwrite a value (at line 2"),
    "wrong-type": (b"ignore = 3", 2, "'ignore' must be list"),
    "too-large": (b"#" * (2**20 + 1), 2, "1 MiB"),
    "deep": (b"a = " + b"[" * 20_000, 2, "not valid TOML"),
    "unknown-rule": (b"[rules.ABCD001]\nlimit = 1", 2, "ABCD001"),
    "unknown-limit": (b"[rules.LOSS003]\nrise = 1", 2, ":2: LOSS003 has no limit 'rise'"),
    "limit-nan": (b"[rules.LOSS003]\nhardly = nan", 2, "finite number"),
    "limit-inf": (b"[rules.LOSS003]\nhardly = inf", 2, "finite number"),
    "limit-negative": (b"[rules.LOSS003]\nhardly = -1", 2, "0 or more"),
    "limit-in-words": (b'[rules.LOSS003]\nhardly = "5%"', 2, "must be a number"),
    "limit-is-a-truth": (b"[rules.LOSS003]\nhardly = true", 2, "must be a number"),
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n" + "\n".join(f"{i},{v:.5f}" for i, v in enumerate(learning(200))))
    return path


def call(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(w) for w in words])
    return int(left.value.code or 0)


@pytest.mark.parametrize("name", TOML)
def test_settings_files_are_taken_or_refused_by_name_and_reason(
    name: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, code, told = TOML[name]
    file = tmp_path / "own.toml"
    file.write_bytes(content)
    assert call("diagnose", log, "--config", file) == code
    err = capsys.readouterr().err
    assert told in err and (code == 0 or err.count("\n") == 1), err


def test_settings_are_toml_only(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.yaml").write_text("a: !!python/object/apply:os.system ['true']")
    assert call("diagnose", log, "--config", tmp_path / "own.yaml") == 2
    assert "TOML only" in capsys.readouterr().err
    assert call("diagnose", log, "--config", tmp_path / "absent.toml") == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "Usage"),
        (("diagnos", "x"), 2, "Did you mean 'diagnose'"),
        (("diagnose", "--formt", "json", "x"), 2, "--format"),
        (("diagnose", "absent"), 3, "absent"),
        (("diagnose", "empty"), 3, "no training run found"),
        (("diagnose", "pipe"), 3, "not a regular file"),
        (("diagnose", "/dev/zero"), 3, "not a regular file"),
        (("diagnose", "LOG", "--select", "XYZ"), 2, "XYZ"),
        (("diagnose", "LOG", "--fail-on", "sometimes"), 2, "--fail-on"),
        (("diagnose", "LOG", "-o", "empty", "--format", "json"), 2, "is a directory"),
        (("diagnose", "LOG", "-o", "LOG/inside.json", "--format", "json"), 5, "cannot write"),
        (("serve", "empty", "--port", "99999"), 2, "65535"),
        (("explain", "LOSS0003"), 2, "LOSS0003"),
    ],
)
def test_calls_that_cannot_be_answered_name_the_reason(
    words: tuple[str, ...], code: int, told: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert call(*(w.replace("LOG", "log.csv") for w in words)) == code
    said = capsys.readouterr()
    assert told in said.err + said.out
    assert "Traceback" not in said.err


def test_names_with_control_signs_work_and_are_shown_harmless(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a\x1b[2Jb\nc.csv", "right\u202eleft.csv", "-dash.csv", "x" * 250 + ".csv"):
        odd = tmp_path / name
        odd.write_text(log.read_text())
        assert call("diagnose", odd) == 0
        out = capsys.readouterr().out
        assert "\x1b[2J" not in out and "\u202e" not in out


def test_links_in_circles_and_deep_folders_are_walked_once(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / "runs"
    deep.mkdir()
    (deep / "self").symlink_to(deep)
    here = deep
    for _ in range(200):
        here = here / "d"
    here.mkdir(parents=True)
    (deep / "log.csv").write_text(log.read_text())
    assert call("diagnose", deep, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["run"]["source"].endswith("runs/log.csv")


def test_a_report_replaces_the_old_one_whole_or_not_at_all(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    out.write_text("old")
    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", _no_space)
        assert call("diagnose", log, "--format", "json", "-o", out) == 5
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.csv", "report.json"]
    assert call("diagnose", log, "--format", "json", "-o", out) == 0
    assert json.loads(out.read_text())["schema"]
    capsys.readouterr()


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_link_is_written_through_and_stays_a_link(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    assert call("diagnose", log, "--format", "json", "-o", tmp_path / "link.json") == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["schema"]
    capsys.readouterr()


def test_with_every_rule_left_out_nothing_is_called_healthy(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("diagnose", log, "--select", "LOSS", "--ignore", "LOSS") == 0
    out = capsys.readouterr().out
    assert "CANNOT TELL" in out and "No rule is active" in out


@pytest.mark.parametrize("flags", [("-O", "-W", "error"), ("-I",)])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_any_interpreter_and_any_encoding_gets_a_page(flags: tuple[str, ...], encoding: str, log: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C", "TERM": "dumb", "COLUMNS": "60"}
    words = [sys.executable, *flags, "-X", "utf8=0", "-m", "traindx", "diagnose", str(log)]
    done = subprocess.run(words, capture_output=True, env=env, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"traindx") and b"\x1b" not in done.stdout


def test_a_reader_that_goes_away_is_no_error(log: Path) -> None:
    words = [sys.executable, "-m", "traindx", "rules"]
    piped = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert piped.stdout is not None and piped.stderr is not None
    piped.stdout.close()
    err = piped.stderr.read()
    piped.wait(timeout=900)
    assert piped.returncode == 0 and b"Traceback" not in err, err
