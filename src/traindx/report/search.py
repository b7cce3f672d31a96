"""One search over everything that has a page: conditions, causes, complaints, and tools by the name a lesson gives them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from traindx import cause
from traindx.diagnosis.trees import TREES
from traindx.rule import catalogue

WORD = re.compile(r"[a-z0-9]+")
ENDINGS = ("ing", "es", "ed", "s", "e")
SHORT = frozenset(
    (
        "a",
        "an",
        "and",
        "at",
        "by",
        "do",
        "does",
        "for",
        "from",
        "how",
        "in",
        "is",
        "it",
        "my",
        "not",
        "of",
        "on",
        "or",
        "the",
        "to",
        "with",
    )
)


@dataclass(frozen=True)
class Hit:
    """Something to read, and how to get at it."""

    kind: str  # condition, cause, complaint or tool
    name: str
    said: str
    call: str


@cache
def lessons() -> dict[str, Any]:
    """The listings, tables, checklists and questions that people know, with the call here (`docs/lessons.md` shows them)."""
    held: dict[str, Any] = json.loads(files("traindx.report").joinpath("lessons.json").read_text(encoding="utf-8"))
    return held


def find(text: str, most: int = 8) -> list[Hit]:
    """What fits best, best first; a rare word counts for more, and a name for twice as much as a description.

    >>> find("learning rate finder")[0].call
    'kit.lr_finder(task)'
    """
    wanted = set(_words(text))
    pages = _pages()
    seen = Counter(word for page in pages for word in page.words)
    weight = {word: math.log(1 + len(pages) / (1 + seen[word])) for word in wanted}
    total = sum(weight.values())
    scores = [(sum(weight[w] * (2 if w in p.names else 1) for w in wanted & p.words), p) for p in pages]
    kept = [(value, page) for value, page in scores if total and value >= total]
    return [page.hit for _, page in sorted(kept, key=lambda pair: -pair[0])[:most]]


def _words(text: str) -> list[str]:
    """Words without endings, so that gradients find a gradient."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()
    return [_stem(w) for w in WORD.findall(plain) if w not in SHORT]


def _stem(word: str) -> str:
    """The word without its ending, where four letters are left.

    >>> {_stem(word) for word in ("decreasing", "decreases", "decrease")}, _stem("losses"), _stem("loss")
    ({'decreas'}, 'loss', 'loss')
    """
    ending = next((e for e in ENDINGS if word.endswith(e) and len(word) >= 4 + len(e)), "")
    return word if word.endswith("ss") else word.removesuffix(ending)


@dataclass(frozen=True)
class _Page:
    hit: Hit
    names: frozenset[str]
    words: frozenset[str]


@cache
def _pages() -> list[_Page]:
    out: list[_Page] = []

    def add(hit: Hit, more: str = "") -> None:
        names = frozenset(_words(f"{hit.name} {more}"))
        out.append(_Page(hit, names, names | frozenset(_words(hit.said))))

    for item in lessons()["items"]:
        add(Hit("tool", item["name"], item["better"], item["here"]), item["words"])
    for tree in TREES:
        add(Hit("complaint", tree.complaint, "", f"traindx diagnose RUN --complaint {tree.code}"))
    for rule in catalogue().values():
        add(Hit("condition", f"{rule.code} {rule.name}", rule.summary, f"traindx explain {rule.code}"))
    for c in cause.catalogue().values():
        add(Hit("cause", c.name, c.title, f"traindx explain {c.name}"))
    return out
