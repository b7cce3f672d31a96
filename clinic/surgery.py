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


def ahead(text: str, line: str, rows: str) -> str:
    """Insert rows before a line that line_of() found, at its indentation."""
    return swap(text, line, _block(rows, indent_of(line)) + line, 1)


def behind(text: str, line: str, rows: str) -> str:
    """Insert rows after a line that line_of() found, at its indentation."""
    return swap(text, line, line + _block(rows, indent_of(line)), 1)


def _block(rows: str, indent: str) -> str:
    return "".join(f"{indent}{row}\n" for row in rows.split("\n"))


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


def backward(text: str) -> str:
    return line_of(text, r"loss\.backward\(\)")


def loop(text: str) -> str:
    """The line that heads the epochs, or the steps where there are no epochs."""
    return line_of(text, r"for (?:epoch|step) in range\((?:EPOCHS|STEPS)\):")


def length(text: str) -> tuple[str, str]:
    """The running number of the outer loop and the constant that ends it."""
    return ("epoch", "EPOCHS") if "EPOCHS = " in text else ("step", "STEPS")


def optimizer(text: str, b: Base, new: str) -> str:
    """Replace the optimizer's constructor call."""
    made = creation(text, b)
    return swap(text, made, f"{indent_of(made)}{b.opt} = {new}\n", 1)


def model_made(b: Base) -> str:
    """The model's name where the optimizer is made: `model` inside a Trainer is `self.model` outside it."""
    return b.model.removeprefix("self.")


def fill(rows: str, b: Base, value: Any) -> str:
    """A template with the base's names for things, {m} for the model where it is made, and {v} for the level."""
    return rows.format_map(_Names(b.names, m=model_made(b), v=value))


class _Names(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        raise Inapplicable


def at_data(rows: str) -> Patch:
    """Insert lines where inputs and targets are whole."""
    return lambda text, b, value: after(text, b.data, fill(rows, b, value))


def at_split(rows: str) -> Patch:
    """Insert lines where training and validation sets exist."""
    return lambda text, b, value: after(text, b.split, fill(rows, b, value))


def at_backward(rows: str) -> Patch:
    """Insert lines between the loss and its backward."""
    return lambda text, b, value: ahead(text, backward(text), fill(rows, b, value))


def at_model(rows: str) -> Patch:
    """Insert lines where the model is made and its optimizer is not yet."""
    return lambda text, b, value: ahead(text, creation(text, b), fill(rows, b, value))


def at_loss(rows: str) -> Patch:
    """Insert lines between the outputs and the training loss."""

    def patch(text: str, b: Base, value: Any) -> str:
        found = re.findall(rf"^[ \t]*loss = .*\b{re.escape(b.out)}\b.*\n", text, flags=re.M)
        if not found:
            raise Inapplicable
        return ahead(text, found[0], fill(rows, b, value))

    return patch


def replace(old: str, new: str) -> Patch:
    """Replace one piece of text; {v} in the new one is the level."""
    return lambda text, b, value: swap(text, old, new.format(v=value), 1)


def either(*changes: tuple[str, str]) -> Patch:
    """Replace the one of these pieces of text that the base has; {v} in the new one is the level."""

    def patch(text: str, b: Base, value: Any) -> str:
        for old, new in changes:
            if old in text:
                return swap(text, old, new.replace("{v}", str(value)), 1)
        raise Inapplicable

    return patch


def both(*patches: Patch) -> Patch:
    """One patch after the other, with the same level."""

    def patch(text: str, b: Base, value: Any) -> str:
        for each in patches:
            text = each(text, b, value)
        return text

    return patch
