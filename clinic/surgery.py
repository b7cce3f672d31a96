"""What an operator is made of: levels, what is known about a base program, and small tools that change a text.

A patch takes the text, what is known about the base, and the level's value. Where its idiom is not in a base it raises
Inapplicable.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from clinic.case import HERE


@dataclass(frozen=True)
class Level:
    name: str
    value: Any = None
    quiet: bool = False
    least: str = "warning"  # an accepted finding is at least this severe


@dataclass(frozen=True)
class Base:
    """What operators know about a base program: its task and the names it gives to things."""

    name: str
    task: str
    names: dict[str, str]
    adaptive: bool = True
    relu: bool = False
    dropout: bool = False
    batchnorm: bool = False
    scheduler: str = ""
    data: str = ""  # the line after which inputs X and targets Y are whole
    split: str = ""  # the line after which tx, ty, vx, vy exist

    def __getattr__(self, key: str) -> str:
        try:
            return self.names[key]
        except KeyError:
            raise Inapplicable from None


class Inapplicable(Exception):
    """The operator's idiom is not in this program."""


Patch = Callable[[str, Base, Any], str]


@dataclass(frozen=True)
class Operator:
    name: str
    fault: str
    condition: str
    codes: tuple[str, ...]
    causes: tuple[str, ...]
    verdicts: tuple[str, ...]
    levels: tuple[Level, ...]
    patch: Patch
    bases: tuple[str, ...] = ()  # none: every base it fits
    exit_code: int = 0

    def apply(self, base: str, text: str, level: Level) -> str | None:
        """The program with the fault in it; None where it does not fit."""
        if self.bases and base not in self.bases:
            return None
        try:
            return self.patch(text, the_base(base), level.value)
        except Inapplicable:
            return None


@cache
def the_base(name: str) -> Base:
    table = tomllib.loads((HERE / "bases" / f"{name}.toml").read_text(encoding="utf-8"))
    return Base(name, **table)


def reseed(text: str, seed: int) -> str:
    return re.sub(r"^SEED = \d+$", f"SEED = {seed}", text, count=1, flags=re.M)


# -- ways to change a text


def swap(text: str, old: str, new: str, times: int | None = None) -> str:
    """Replace `old`, which must be there (and as often as `times` says)."""
    if old not in text or (times is not None and text.count(old) != times):
        raise Inapplicable
    return text.replace(old, new)


def after(text: str, anchor: str, lines: str) -> str:
    """Insert lines after an anchor line, at the anchor's indentation."""
    if not anchor or text.count(anchor) != 1:
        raise Inapplicable
    at = text.index(anchor)
    start = text.rfind("\n", 0, at) + 1
    indent = re.match(r"[ \t]*", text[start:]).group()  # type: ignore[union-attr]
    end = text.index("\n", at) + 1
    return text[:end] + "".join(f"{indent}{row}\n" for row in lines.rstrip("\n").split("\n")) + text[end:]


def constant(text: str, name: str, change: Callable[[float], float]) -> str:
    """Change the value of a constant at the top of the program."""
    found = re.search(rf"^{name} = ([\d.e+-]+)$", text, flags=re.M)
    if not found:
        raise Inapplicable
    value = change(float(found.group(1)))
    shown = str(int(value)) if name in ("EPOCHS", "STEPS", "BATCH") else f"{value:g}"
    return text[: found.start(1)] + shown + text[found.end(1) :]


def line_of(text: str, pattern: str) -> str:
    """The one line (with its newline) that matches."""
    found = re.findall(rf"^[ \t]*{pattern}.*\n", text, flags=re.M)
    if len(found) != 1:
        raise Inapplicable
    return str(found[0])


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def creation(text: str, b: Base) -> str:
    """The line that makes the primary optimizer."""
    return line_of(text, rf"{re.escape(b.opt)} = torch\.optim\.")


def call(b: Base, method: str) -> str:
    return rf"{re.escape(b.opt)}\.{method}\("


def optimizer(text: str, b: Base, new: str) -> str:
    """Replace the optimizer's constructor call."""
    made = creation(text, b)
    return swap(text, made, f"{indent_of(made)}{b.opt} = {new}\n", 1)


def model_made(b: Base) -> str:
    """The model's name where the optimizer is made: `model` inside a Trainer is `self.model` outside it."""
    return b.model.removeprefix("self.")
