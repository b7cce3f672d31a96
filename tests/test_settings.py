"""What a user may set."""

from pathlib import Path

import pytest

from traindx.errors import UsageError
from traindx.settings import Settings, load


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
