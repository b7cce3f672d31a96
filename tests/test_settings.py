"""What a user may set."""

import datetime
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from traindx import settings
from traindx.cli import cli
from traindx.diagnosis import diagnose
from traindx.errors import UsageError
from traindx.finding import Status
from traindx.run import Run
from traindx.settings import Settings, load


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the settings of this machine."""
    for name in ("TRAINDX_DIR", "TRAINDX_LIVE", "TRAINDX_ALERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(settings, "SITE", tmp_path / "etc" / "traindx.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ("etc", "home"):
        (tmp_path / name).mkdir()


def write(folder: Path, text: str, name: str = "traindx.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_defaults_without_a_file(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings()


def test_reads_the_nearest_file_above(tmp_path: Path) -> None:
    write(tmp_path, '[tool.traindx]\nignore = ["PERF"]\n[tool.traindx.rules.GRAD002]\nlimit = 20.0\n', "pyproject.toml")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    found = load(deep)
    assert found.ignore == ("PERF",) and found.rules["GRAD002"]["limit"] == 20.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fail-onn = 'never'", ":1: unknown setting 'fail-onn'"),
        ("fail-on = 'often'", "must be one of critical, warning, restart, never"),
        ("budget = 7", "between 0 and 1"),
        ("budget = true", "'budget' must be"),
        ("select = 'GRAD'", "'select' must be list"),
        ("[rules]\nGRAD002 = 3", "must be a table of limits"),
        ("[severity]\nGRAD002 = 'loud'", ":2: the severity of GRAD002 must be one of critical, warning, info"),
        ("[ignore]\nPERF009 = true", ":2: write PERF009 = "),
        ("[ignore]\nPERF009 = {why = 'x', until = 'soon'}", ":2: 'until' of PERF009 is a day"),
        ("[records]\nmode = 'all'", ":2: 'mode' of records is private or group"),
        ("[retention]\noldr = '3d'", "did you mean 'older'"),
        ("select = [", "not valid TOML"),
    ],
)
def test_says_what_is_wrong_and_where(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=told) as caught:
        load(tmp_path)
    assert str(path) in str(caught.value)


def test_a_broken_pyproject_that_holds_our_settings_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, '[tool.traindx]\nignore = ["PERF"\n', "pyproject.toml")
    with pytest.raises(UsageError, match="not valid TOML"):
        load(tmp_path)


def test_somebody_elses_broken_pyproject_is_not_ours_to_judge(tmp_path: Path) -> None:
    write(tmp_path, "[tool", "pyproject.toml")
    assert load(tmp_path) == Settings()


def test_layers_and_where_each_value_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write(tmp_path / "etc", 'fail-on = "warning"\nlive = false\nignore = ["PERF"]\nalerts = ["https://site"]')
    user = write(tmp_path / "home", 'fail-on = "never"\n[ignore]\nREPR001 = {why = "one machine"}')
    project = tmp_path / "project"
    project.mkdir()
    own = write(project, '[severity]\nGRAD002 = "info"\n[records]\nmode = "group"')
    monkeypatch.setenv("TRAINDX_DIR", "elsewhere")
    found = load(project)
    assert (found.fail_on, found.live, found.dir, found.mode) == ("never", False, "elsewhere", "group")
    assert found.ignore == ("PERF", "REPR001") and found.reasons == {"REPR001": "ignored: one machine"}
    assert found.severity == {"GRAD002": "info"} and found.alerts == ("https://site",)
    assert found.origins["live"] == f"{site}:2" and found.origins["fail-on"] == f"{user}:1"
    assert found.origins["severity"] == f"{own}:1" and found.origins["dir"] == "$TRAINDX_DIR"
    monkeypatch.chdir(project)
    told = json.loads(CliRunner().invoke(cli, ["config", "--format", "json"], standalone_mode=False).stdout)
    assert {"key": "live", "value": False, "from": f"{site}:2"} in told["settings"]


def test_a_bad_site_file_stops_judging_but_no_training(tmp_path: Path) -> None:
    site = write(tmp_path / "etc", "liv = false")
    with pytest.raises(UsageError, match=rf"{site}:1: unknown setting 'liv' \(did you mean 'live'\?\)"):
        load(tmp_path)
    said: list[str] = []
    assert load(tmp_path, warn=said.append) == Settings() and "did you mean 'live'" in said[0]


def test_a_code_that_is_not_there_stops_no_training_either(tmp_path: Path) -> None:
    from traindx.cli.options import _known_codes

    write(tmp_path / "home", 'ignore = ["NOPE001", "PERF"]\n[rules.GRAD002]\nlimti = 20\n')
    with pytest.raises(UsageError, match=r"traindx\.toml:3: GRAD002 has no limit 'limti'"):
        _known_codes(load(tmp_path), trains=False)
    left = _known_codes(load(tmp_path), trains=True)
    assert left.ignore == ("PERF",) and left.rules == {}


def test_an_address_that_cannot_be_stops_no_training_either(capsys: pytest.CaptureFixture[str]) -> None:
    from traindx.cli.run import _standing

    assert _standing("yes please", "/etc/traindx.toml:1") is None
    assert "/etc/traindx.toml:1: 'yes please' is no address" in capsys.readouterr().err
    assert _standing(None, "") is None


def test_extends(tmp_path: Path) -> None:
    write(tmp_path, 'fail-on = "never"\n[rules.GRAD002]\nlimit = 20.0', "team.toml")
    write(tmp_path, 'fail-on = "critical"', "other.toml")
    path = write(tmp_path, 'extends = "team.toml"\nlive = false')
    found = load(tmp_path)
    assert (found.fail_on, found.live, found.rules["GRAD002"]["limit"]) == ("never", False, 20.0)
    write(tmp_path, 'extends = ["team.toml", "other.toml"]')
    with pytest.raises(UsageError, match=r"two files contradict each other on 'fail-on': .*team.toml:1 says 'never'"):
        load(tmp_path)
    write(tmp_path, 'extends = ["team.toml", "other.toml"]\nfail-on = "warning"')
    assert load(tmp_path).fail_on == "warning"
    for text, told in (("'https://a/b.toml'", "not addresses"), ("'traindx.toml'", "circle"), ("3", "a list of paths")):
        write(tmp_path, f"extends = {text}")
        with pytest.raises(UsageError, match=told):
            load(tmp_path)
    assert path.exists()


@pytest.mark.parametrize("until", ['"2027-01-31"', "2027-01-31"])
def test_ignored_until_a_day(tmp_path: Path, until: str) -> None:
    write(tmp_path, f'[ignore]\nLOSS006 = {{until = {until}, why = "known"}}')
    before = load(tmp_path, today=datetime.date(2027, 1, 31))
    assert before.ignore == ("LOSS006",) and not before.expired
    muted = next(o for o in diagnose(Run.of({"loss/train": [1.0]}), before).outcomes if o.code == "LOSS006")
    assert muted.status is Status.MUTED and muted.reason == "ignored until 2027-01-31: known"
    after = load(tmp_path, today=datetime.date(2027, 2, 1))
    assert after.ignore == () and "it is checked again" in after.expired[0]


def test_severity_of_a_code() -> None:
    run = Run.of({"loss/train": [1.0] * 40 + [float("nan")] * 5})
    loud = {f.code: f.severity.value for f in diagnose(run).findings}
    code = next(c for c, word in loud.items() if word == "critical")
    quiet = {f.code: f.severity.value for f in diagnose(run, Settings(severity={code: "warning"})).findings}
    assert quiet[code] == "warning"
