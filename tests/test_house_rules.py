"""House rules: conditions of another package, found through an entry point; a broken one harms nobody."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from traindx import rule as rules_
from traindx.cli import cli
from traindx.diagnosis import diagnose
from traindx.finding import Status
from traindx.rule import rule
from traindx.run import Run
from traindx.settings import Settings

EXAMPLE = Path(__file__).parent.parent / "examples" / "house_rules"
RUN = Run.of({"loss/train": [2.0 / (1 + i / 20) for i in range(60)], "accuracy/val": [0.1 + i / 100 for i in range(60)]})


def _with(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == "traindx.rules" else ())
    rules_.house.cache_clear()
    rules_.catalogue.cache_clear()


@pytest.fixture(autouse=True)
def _ours_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    monkeypatch.undo()
    rules_.house.cache_clear()
    rules_.catalogue.cache_clear()


def test_the_example_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 'acme = "acme_rules.accuracy"' in (EXAMPLE / "pyproject.toml").read_text()
    _with(monkeypatch, EntryPoint("acme", "acme_rules.accuracy", "traindx.rules"))
    found = [f for f in diagnose(RUN).findings if f.code == "ACME001"]
    assert [f.message for f in found] == ["the best validation accuracy is 0.690, and the house limit is 0.800"]
    assert found[0].name == "acme/below-house-limit"
    assert not [f for f in diagnose(RUN, Settings(rules={"ACME001": {"least": 0.5}})).findings if f.code == "ACME001"]
    said = CliRunner().invoke(cli, ["rules", "--select", "ACME"], standalone_mode=False).output
    assert "third-party, from acme" in said and "ACME001" in said
    assert "third-party" in CliRunner().invoke(cli, ["explain", "ACME001"], standalone_mode=False).output


@rule("BAD1", needs={}, says="")
def bad_code(run: Run) -> Iterator[object]:
    yield from ()


@rule("LOSS001", needs={}, says="")
def not_its_own(run: Run) -> Iterator[object]:
    yield from ()


@rule("ACME002", needs={"a": "many"}, says="")  # type: ignore[dict-item]
def breaks(run: Run) -> Iterator[object]:
    raise ValueError("ours is broken")


def test_a_broken_package_is_told_and_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = sys.modules[__name__].__name__
    points = [EntryPoint(n, f"{own}:{n}", "traindx.rules") for n in ("bad_code", "not_its_own", "breaks")]
    _with(monkeypatch, EntryPoint("none", "there.is.no.such.module", "traindx.rules"), *points)
    codes = set(rules_.catalogue())
    assert "ACME002" in codes and "BAD1" not in codes and rules_.catalogue()["LOSS001"].look is not not_its_own.look
    said = capsys.readouterr().err
    assert "the house rules of none were left out" in said and "'BAD1' is left out" in said and "'LOSS001' is left out" in said
    run = RUN.with_(signals={"a": RUN["loss/train"]})
    [outcome] = [o for o in diagnose(run).outcomes if o.code == "ACME002"]
    assert outcome.status is Status.BROKEN
