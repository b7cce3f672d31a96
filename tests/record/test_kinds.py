"""Facts of a record that are not what they should be are left out, and said so."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from clinic import store

from record.records import a_writer, write_step
from traindx import signals
from traindx.record import kinds, read

WRONG = {"f": ["x", float("inf"), 10**400, []], "s": [3, ["x"]], "[": [3, {}, "x", [[["x"]]]], "{": [[], 3, "x"]}


def test_the_examples_hold() -> None:
    assert doctest.testmod(kinds).failed == 0


def test_every_listed_fact_is_one_that_there_is() -> None:
    assert not set(kinds.KINDS) - set(signals.FACTS)


@pytest.mark.parametrize("path", sorted(store.RUNS.glob("*.npz")), ids=lambda p: p.stem)
def test_what_we_record_ourselves_fits(path: Path) -> None:
    assert kinds.odd(store.load(path).facts) == []


def test_what_does_not_fit_is_left_out_and_said(tmp_path: Path) -> None:
    given = {
        name: wrong
        for name, kind in kinds.KINDS.items()
        for wrong in [WRONG[kind[0]][0]]
        if name not in ("rank", "started", "ended")
    }
    writer = a_writer(tmp_path / "run")
    writer.fact("model.loss_detached", True)
    for name, value in given.items():
        writer.fact(name, value)
    write_step(writer, 1)
    writer.close()
    run = read(tmp_path / "run")
    assert not set(given) & set(run.facts) and run.facts["model.loss_detached"] is True
    assert any(f"{len(given)} facts are not what they should be" in note for note in run.notes)


@pytest.mark.parametrize("kind", sorted(set(kinds.KINDS.values())))
def test_no_wrong_value_fits(kind: str) -> None:
    assert kind[0] in WRONG and kinds.fits(None, kind)
    assert not [wrong for wrong in WRONG[kind[0]][:3] if kinds.fits(wrong, kind)]
