"""The contract with the lessons: 62 items, each with a reference, at least three examples and a row in docs/lessons.md."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from clinic.case import written

from lessons import references
from lessons.contract import CONTRACT, Held
from lessons.curves import SHAPES
from lessons.examples import EXAMPLES
from traindx.report import search

ROOT = Path(__file__).parents[2]
ITEMS = {item["id"]: item for item in search.lessons()["items"]}


@cache
def page() -> str:
    return (ROOT / "docs" / "lessons.md").read_text(encoding="utf-8")


def programs(rows: str) -> list[str]:
    """The programs of the clinic that stand for these rows and were judged right when the clinic was last published."""
    cases = json.loads((ROOT / "clinic" / "results" / "written.json").read_text(encoding="utf-8"))["cases"]
    right = {c["name"] for c in cases if (c["hit"] if c["kind"] == "sick" else not c["alarms"]["critical"])}
    wanted = tuple(rows.split())
    return [c.name for c in written() if c.name in right and any(row.startswith(wanted) for row in c.covers)] if wanted else []


def unheld(held: Held) -> list[str]:
    """What the entry names and is not there."""
    missing = [name for name in held.examples if name not in EXAMPLES] + [s for s in held.shapes if s not in SHAPES]
    for test in held.tests:
        file, _, name = test.partition("::")
        there = (ROOT / file).exists() and (not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"))
        missing += [] if there else [test]
    return missing


def test_the_list_has_62_items_and_none_is_left_out() -> None:
    assert sorted(ITEMS) == sorted(CONTRACT) == list(range(1, 63))
    assert set(EXAMPLES) == {name for held in CONTRACT.values() for name in held.examples}  # none lies idle


@pytest.mark.parametrize("number", range(1, 63))
def test_an_item_has_a_reference_three_examples_and_a_row_with_a_figure(number: int) -> None:
    held, item = CONTRACT[number], ITEMS[number]
    assert held.reference and not unheld(held)
    assert not held.reference.isidentifier() or callable(getattr(references, held.reference))
    assert len({*held.examples, *held.shapes, *held.tests, *programs(held.rows)}) >= 3, item["name"]
    (row,) = [line for line in page().splitlines() if line.startswith(f"| {item['name']} (")]
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert len(cells) >= 4 and any(c.isdigit() for c in cells[-1]), f"no figure for {item['name']}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_reference_and_ours_agree(name: str, tmp_path: Path) -> None:
    EXAMPLES[name](tmp_path)
