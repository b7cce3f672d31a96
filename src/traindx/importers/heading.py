"""Printed tables: a line of names, then lines of numbers under them, as fastai, skorch, YOLO and many a script print.

A row is rewritten into what every other line looks like, each number behind its name, so that one reader serves both.

>>> heading = heading_of("epoch     train_loss  valid_loss  accuracy  time")
>>> heading.phrase("0         0.512000    0.498000    0.811000  00:04")
'epoch: 0 | train_loss: 0.512000 | valid_loss: 0.498000 | accuracy: 0.811000'
>>> heading.phrase("loading the best weights again, from epoch 0") is None
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from traindx.importers.aliases import meaning, words
from traindx.importers.lexicon import DOWN, UP

TELLING = ("loss", "part", "perplexity", "accuracy", "train_eval")
PLACE = ("step", "epoch")
_APART = re.compile(r"\s{2,}|\t")
_NAME = re.compile(
    r"(?!.*(?:\s[-+.]?\d|\d\.\d|\d[eE][-+]\d|\s[-+]?(?:nan|inf)\b))[A-Za-z_][^|,=:]{0,58}", re.I
)  # and no number in it
_CELL = re.compile(
    r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:/\d+)?[%GMKs]?|[-+]?(?:nan|inf)|\d+(?::\d+)+|None|#na#|-+", re.I
)


@dataclass(frozen=True)
class Heading:
    """The names of a printed table and what parts its cells."""

    names: tuple[str, ...]
    parter: str  # "|", "," or nothing for blanks

    def phrase(self, line: str) -> str | None:
        """A row as `name: number | …`, or None when the line is no row of this table."""
        cells = _parted(line, self.parter) if self.parter else line.split()
        cells = [cell.rstrip("*").strip() for cell in cells]
        if len(cells) != len(self.names) or not all(_CELL.fullmatch(cell) for cell in cells):
            return None
        told = [f"{name}: {cell}" for name, cell in zip(self.names, cells, strict=True) if _number(cell)]
        return " | ".join(told) if len(told) > 1 else None


def heading_of(line: str) -> Heading | None:
    """The heading a line is: names only, a loss or metric among them, and a place or a second measurement next to it."""
    if len(line) > 1000 or ":" in line or "=" in line:
        return None
    for parter in "|,":
        if line.count(parter) > 1:
            return _heading(_parted(line, parter), parter)
    apart = [cell for cell in _APART.split(line.strip()) if cell]
    if len(apart) > 2:
        return _heading(apart, "")
    cells = line.split()
    return _heading(cells, "") if all(_known(cell) for cell in cells) else None


def _heading(cells: list[str], parter: str) -> Heading | None:
    if not 2 <= len(cells) <= 40 or len(set(cells)) < len(cells) or not all(_NAME.fullmatch(cell) for cell in cells):
        return None
    roles = [meaning(cell).role for cell in cells]
    telling = sum(role in TELLING for role in roles)
    placed = any(role in PLACE for role in roles)
    return Heading(tuple(cells), parter) if telling and (placed or telling > 1) else None


def _parted(line: str, parter: str) -> list[str]:
    bare = line.strip()
    if parter == "|":
        bare = bare.strip("|")
    return [cell.strip() for cell in bare.split(parter)]


def _known(name: str) -> bool:
    role = meaning(name).role
    return role in (*TELLING, *PLACE, "lr", "duration") or (role == "metric" and bool(set(words(name)) & (UP | DOWN)))


def _number(cell: str) -> bool:
    return (":" not in cell and any(c.isdigit() for c in cell)) or cell.lower().lstrip("+-") in ("nan", "inf")
