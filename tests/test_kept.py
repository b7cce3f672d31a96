"""Verdicts are kept: found again for the same record, code and settings, and never believed where others could write."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from traindx.diagnosis import kept
from traindx.report import runs
from traindx.settings import Settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINDX_CACHE", str(tmp_path / "cache"))
    kept.home.cache_clear()
    yield tmp_path / "sweep"
    kept.home.cache_clear()


def _write(home: Path, count: int = 3) -> Path:
    for i in range(count):
        (home / f"exp{i}").mkdir(parents=True, exist_ok=True)
        rows = [f"{s},{2 / (1 + s / 20) + i / 100:.4f},{0.9 - 0.8 * 0.9**s + i / 100:.4f}" for s in range(60)]
        (home / f"exp{i}" / "log.csv").write_text("step,train_loss,val_acc\n" + "\n".join(rows))
        (home / f"exp{i}" / "config.json").write_text(json.dumps({"lr": 10.0**-i}))
    return home


def _judged_anew(home: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings | None = None) -> int:
    """How many parts were judged and not found."""
    done: list[Path] = []
    judge = runs._judge
    monkeypatch.setattr(runs, "_judge", lambda part, key, chosen: done.append(part) or judge(part, key, chosen))
    assert len(runs.Runs([home], settings).documents()) == 3
    monkeypatch.setattr(runs, "_judge", judge)
    return len(done)


def test_a_verdict_is_found_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home)
    assert _judged_anew(home, monkeypatch) == 3
    before = runs.Runs([home]).documents()
    assert _judged_anew(home, monkeypatch) == 0
    assert runs.Runs([home]).documents() == before
    assert [d["row"] for d in runs.Runs([home]).documents(reports=True)] == [d["row"] for d in before]


def test_what_changes_a_verdict_makes_it_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home)
    assert _judged_anew(home, monkeypatch) == 3
    with (home / "exp1" / "log.csv").open("a") as file:
        file.write("\n60,0.1,0.9")
    assert _judged_anew(home, monkeypatch) == 1
    (home / "exp2" / "config.json").write_text('{"lr": 3}')
    assert _judged_anew(home, monkeypatch) == 1
    assert _judged_anew(home, monkeypatch, Settings(ignore=("LOSS",))) == 3
    assert _judged_anew(home, monkeypatch, Settings(fail_on="never")) == 0
    monkeypatch.setattr(kept, "_engine", lambda: "newer")
    assert _judged_anew(home, monkeypatch) == 3


def test_a_broken_or_foreign_cache_costs_time_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home)
    _judged_anew(home, monkeypatch)
    for file in kept.home().iterdir():
        file.write_text("{ not ours")
    assert _judged_anew(home, monkeypatch) == 3
    os.chmod(kept.home().parent, 0o777)
    kept.home.cache_clear()
    assert kept.home() is None and _judged_anew(home, monkeypatch) == 3


def test_a_verdict_next_to_a_record_is_not_believed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home)
    part = home / "exp0" / "log.csv"
    (home / "exp0" / kept.key(part, [], None)).write_text('[{"verdict": "healthy"}]\n[]\n')
    assert _judged_anew(home, monkeypatch) == 3


def test_a_run_in_a_folder_is_judged_as_it_is_alone(home: Path) -> None:
    _write(home)
    together = {d["row"]["source"]: d["report"] for d in runs.Runs([home]).documents(reports=True)}
    for i in range(3):
        part = home / f"exp{i}" / "log.csv"
        from traindx import api
        from traindx.report import json as reports

        assert together[str(part)] == reports.plain(reports.report(api.diagnose(part)))


def test_the_cache_stays_small(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(home)
    monkeypatch.setattr(kept, "MOST_BYTES", 1)
    runs.Runs([home]).documents()
    assert list(kept.home().iterdir()) == []
    monkeypatch.setenv("TRAINDX_CACHE", "0")
    kept.home.cache_clear()
    assert kept.home() is None
