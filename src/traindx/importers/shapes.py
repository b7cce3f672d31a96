"""Printed lines by their shape: what stays the same from line to line, and the numbers that change.

A line is cut at its numbers. What stands between them is its shape; a training prints the same few shapes again and again.
Each shape is understood once, from its words and from how its numbers behave over the whole file: which one counts, which
is a loss, which is a running mean. What is printed once, before the first shape that comes back, is no record.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from traindx.diagnosis.row import options
from traindx.importers.aliases import Meaning, direction, meaning, words
from traindx.importers.heading import TELLING, Heading, heading_of
from traindx.importers.lexicon import ACCURACY, FOREIGN, LOSS, NOT_LOSS, SPLITS
from traindx.run import Floats
from traindx.said import said_in

LONGEST = 4000  # characters of a line that are looked at
MOST_SETTINGS = 500
MOST_SHAPES = 20_000
MOST_NUMBERS = 200  # of one line
MOST_OF_SHAPE = 100_000  # lines of one shape that are kept; of longer logs every second, fourth, … is
MOST_ODD = 1000  # lines of one shape that hold NaN or infinity: these are kept whatever the tier
ENOUGH = 3  # thorough readings of one form of line that a quick one must agree with
MOST_KNOWN = 5000  # forms of line that are remembered for quick reading

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f]")
_HINT = re.compile(
    r"epoch|step|iter|ppl|perplexity|update|train|val|eval|[DG]_[A-Za-z]|\d/\d|[^\x00-\x7f]|"
    + "|".join(sorted(LOSS | ACCURACY | {word for word in FOREIGN if word.isascii()})),
    re.I,
)
_CLOCK = r"\d{1,3}:\d{2}(?::\d{2})?(?:[.,]\d+)?"
# dates and times of day, durations, places in source files, what a bar is drawn with: none of it is a measurement
_NO_DATA = re.compile(
    rf"(?<![\d.])(?:19|20)\d{{2}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:[T _]+{_CLOCK}(?:Z|[+-]\d{{2}}:?\d{{2}})?)?"
    rf"|(?<![\d.])\d{{1,2}}[-/.]\d{{1,2}}(?:[-/.]\d{{2,4}})?[T ]+{_CLOCK}|\b[A-Z][a-z]{{2}} +\d{{1,2}} +{_CLOCK}"
    rf"|^[IWEF]\d{{4}} {_CLOCK} +\d+|(?<![\d.:])(?:\d+ days?, )?{_CLOCK}(?![\d.:])"
    r"|^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]*:|[\w./-]+\.py:\d+|\b[\w.]+:\w+:\d+(?= -)"
    r"|(?<![\w.])\d+(?:\.\d+)?(?:(?!epoch)[a-z]+/s|s/(?!epoch)[a-z]+)(?![\w/])"  # the speed of a progress bar
    r"|[█▉▊▋▌▍▎▏━╸╺]+|(?<=\[)[=#>.-]{2,}(?=\])|(?<=%\|)[#\d ]+(?=\|)"
)
_GLUED = re.compile(r"\b(ep|epoch|e|it|iter|step)[-_#]?(\d+)(?=$|[\s/:,;|\])])", re.I)  # "ep03/50", "E003"
_SOURCE = re.compile(
    r"^(?:\s{2,}|\t+)\S+\s*(?:[-+*/]?=|\()|^\s*(?:import|from|def|class|for|if|elif|else|while|return|with|print|assert)\b.*[:()\"']|\.item\(\)|\)\s*#"
)  # rare lines that look like program text
_NUMBER = re.compile(
    r"(?<![\w.@\\])(?<![A-Za-z][-/])([-+]?(?:\d{1,3}(?:,\d{3})++(?!,?\d)|\d[\d_]*+\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?|[-+]?(?:nan|inf|infinity)(?![\w]))"
    r"\s?(ms|sec|s|GiB|GB|MiB|MB|%|G|M|K)?(?![\w.])",
    re.I,
)
_CUT = re.compile(r"[,;|{}\[\]<>\t\"']|\s{2,}|\s-+\s|\s·\s|=>|->|\)\s")
_OPERATORS = ("*", "+", "%", "==", "<=", ">=", "!=", "//", "**", "+=", "-=", "*=")
_SETTING = re.compile(r"[A-Za-z_][\w.]{1,60}")
_TOGETHER = re.compile(
    r"\bNamespace\((.*)\)\s*$|\b(?:arg\w*|config\w*|cfg|hparams|\w*param\w*|settings|options|opts?)\s*[:=]\s*\{(.*)\}\s*$", re.I
)  # all settings of a run on one line, as argparse and dict print them
_COMMAND = re.compile(r"\bpython[\d.]*\s(?:.*?\s)?\S+\.py\s+(-.*)$")
_PAIR = re.compile(r"""["']?([A-Za-z_][\w.]{0,60})["']?\s*[=:]\s*("[^"]*"|'[^']*'|[^,"'\[({]+)(?=,|$)""")
_ERROR = re.compile(r"^([A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit|OutOfMemory)):?\s*(.{0,300})$")
_RANK = re.compile(r"^\^C|^\[?rank ?\d+\]?: ?")  # what launchers put before a line, and terminals
_VOCAB = re.compile(r"vocab_size (?:of GPT-2 to|=|:)\s*(\d+)")
_NOTHING = Meaning("")
_DIGITS = re.compile(r"[0-9]+")
_ROW = re.compile(r"^\|\s+([A-Za-z][^|]{0,58}?)\s*\|\s*([^|\s]*)\s*\|\s*$")
_RULER = re.compile(r"^[-+=|]{5,}\s*$")
_COUNTERS = ("total_timesteps", "timesteps_total", "total timesteps", "env_steps", "TotalEnvInteracts", "iterations", "Epoch")
_RESCALED = re.compile(
    r"(?:reducing|setting|lowering)\b[^\d\n]{0,30}\bto:? *([\d.]+(?:e[-+]?\d+)?)", re.I
)  # apex, fairseq, DeepSpeed
_PLAYER = re.compile(r"(?:^|[\s,|])(D\((?:x|G\(z\))\))$")  # what DCGAN scripts print of the discriminator
_CHATTER = frozenset(
    [
        "improved",
        "decreased",
        "increased",
        "from",
        "than",
        "best",
        "was",
        "reached",
        "patience",
        "early",
        "saving",
        "target",
        "minimum",
        "lowest",
    ]
)
_LINKS = frozenset(
    ["of", "to", "at", "in", "with", "for", "than", "is", "on", "by", "and", "from", "the", "a", "was", "=", ":"]
)
_ALL_SPLITS = frozenset(word for names in SPLITS.values() for word in names)
# foreign phrasings → ours
_PHRASES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(\d+)epoch:(train|valid):(?:\d+)-(\d+)batch:?"), r"epoch \1, batch \3, \2 | "),  # ESPnet
    (re.compile(r"\b(\d+)epoch results:"), r"epoch \1 results |"),
    (
        re.compile(r"[Aa]verage objective function for '?\w+'? for minibatches \d+-(\d+) is -([\d.eE+-]+)"),
        r"iter \1 | loss \2 |",
    ),  # Kaldi
    (re.compile(r"[Oo]verall average objective function for '?\w+'? is -([\d.eE+-]+)"), r"| loss \1 |"),
    (re.compile(r"\b[Ee]poch\((train|val|test)\)"), r"\1 | Epoch "),  # MMEngine
)
_YOLO = re.compile(r"^\s*(\d+/\d+\s+[\d.]+G(?:\s+[-+\d.e]+){13})\s*$", re.I)
YOLO = Heading(
    (
        "epoch",
        "mem",
        "train/box_loss",
        "train/obj_loss",
        "train/cls_loss",
        "train/total_loss",
        "labels",
        "size",
        "precision",
        "recall",
        "map50",
        "map",
        "val/box_loss",
        "val/obj_loss",
        "val/cls_loss",
    ),
    "",
)  # results.txt of YOLOv5 and v7 has no heading
_PHRASED = re.compile(r"\depoch[: ]|objective function|poch\((?:train|val|test)\)")


@dataclass(frozen=True)
class Words:
    """The text between two numbers, understood; the same few texts come back on every line."""

    key: str  # the words that belong to the number after it
    split: str  # the split the last telling word names
    sure: bool  # a colon or an equals sign ties key and number
    of: bool  # only a slash: the number after it says of how many, or belongs to the one before
    inside: bool  # only an opening bracket: a running mean, or another figure of the same thing
    opens: bool  # a bracket, bar or colon just before the number
    bar: bool
    role: str  # of the key, unless it speaks of evaluation
    telling: bool


@dataclass
class Shape:
    """Lines that differ in their numbers only."""

    texts: tuple[str, ...]
    units: tuple[str, ...]
    before: tuple[Words, ...]
    splits: tuple[str, ...]  # the split that the words up to each number name
    source: bool = False  # the first of them looks like program text
    lines: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[float] = field(default_factory=lambda: array("d"))
    stride: int = 1  # of the lines that were seen, one of so many is kept
    seen: int = 0
    odd: int = 0

    def add(self, at: int, numbers: list[float]) -> bool:
        """Keep a line, and say whether it was kept: of a very long log one in `stride`, and those that are not finite."""
        self.seen += 1
        if self.seen % self.stride:
            if self.odd >= MOST_ODD or all(map(math.isfinite, numbers)):
                return False
            self.odd += 1
        self.lines.append(at)
        self.numbers.extend(numbers)
        if len(self.lines) >= MOST_OF_SHAPE:
            table = self.table().copy()
            keep = np.arange(len(table)) % 2 == 1
            if self.odd < MOST_ODD:
                keep |= ~np.isfinite(table).all(axis=1)
            self.lines = array("q", np.asarray(self.lines)[keep].tobytes())
            self.numbers = array("d", table[keep].tobytes())
            self.stride *= 2
        return True

    @property
    def telling(self) -> bool:
        return any(words.telling for words in self.before)

    @property
    def by_epoch(self) -> bool:
        """A progress bar that tells its speed in epochs: "3/10 [01:20<03:05, 35.0s/epoch]"."""
        return any("/epoch" in text or "epoch/s" in text for text in self.texts)

    def table(self) -> Floats:
        return np.frombuffer(self.numbers, dtype=np.float64).reshape(len(self.lines), len(self.before))


@dataclass
class Record:
    """One printed line that holds measurements, with its place."""

    values: dict[str, float]
    step: float = math.nan
    epoch: float = math.nan
    inner: float = math.nan  # place within the epoch or bar
    total: float = math.nan  # of how many
    bar: bool = False
    line: int = 0


@dataclass
class Said:
    """A message of the program that names a condition: where it stood first, in which words, how often."""

    line: int
    text: str
    count: int = 1
    last: int = 0  # the line where it stood last


@dataclass
class Plan:
    """What the numbers of a shape are: indexes of those that tell the place, and the columns of the others."""

    step: int = -1
    epoch: int = -1
    inner: int = -1
    total: int = -1
    bar: bool = False
    planned: float = math.nan
    epochs: float = math.nan
    columns: dict[str, int] = field(default_factory=dict)
    telling: bool = False
    finished: bool = False  # the epoch is the last one that is done; what is printed next belongs to the following one

    @property
    def placed(self) -> bool:
        return max(self.step, self.epoch, self.inner) >= 0


@dataclass
class State:
    """What was read so far."""

    shapes: dict[tuple[str, ...], Shape] = field(default_factory=dict)
    tables: list[tuple[int, Record]] = field(default_factory=list)  # records that are no single line, by line
    settings: dict[str, Any] = field(default_factory=dict)
    planned: float = math.nan  # steps in "step 10/5000"
    epochs: float = math.nan  # and epochs in "epoch 3/20"
    lines: int = 0
    said: dict[str, Said] = field(default_factory=dict)
    error: tuple[str, str] | None = None
    error_at: int = 0
    killed: bool = False
    cells: int = 0
    dropped: int = 0
    section: str = ""  # of a printed table: "rollout/"
    table: dict[str, float] = field(default_factory=dict)  # its rows so far
    heading: Heading | None = None  # the names that stood over the numbers last
    known: dict[str, Known] = field(default_factory=dict)  # forms of line, without their digits


@dataclass
class Known:
    """A form of line that came before: where its numbers stand, and to which shape it belongs."""

    numbers: re.Pattern[str]
    shape: Shape
    agreed: int = 0  # how often the quick reading gave what the thorough one does


# -- one line


def take(line: str, state: State) -> None:
    """Put a line to its shape: quickly where the same line with other digits was understood before."""
    if len(line) > LONGEST:
        line = line[:LONGEST]
    form = _DIGITS.sub("0", line)
    known = state.known.get(form) if state.heading is None else None
    if known is not None and known.agreed >= ENOUGH and (found := known.numbers.fullmatch(line)):
        state.cells += len(found.groups()) * known.shape.add(state.lines, [float(n.replace(",", "")) for n in found.groups()])
        return
    before = len(state.said), state.error_at, state.killed, len(state.tables)
    shape, numbers = _thoroughly(line, state)
    if (
        shape is None
        or before != (len(state.said), state.error_at, state.killed, len(state.tables))
        or state.heading is not None
    ):
        return
    if known is None and len(state.known) < MOST_KNOWN and (pattern := _places(line, numbers)) is not None:
        known = state.known[form] = Known(pattern, shape)
    if known is not None and known.shape is shape and (found := known.numbers.fullmatch(line)):
        quick = [float(n.replace(",", "")) for n in found.groups()]
        known.agreed = known.agreed + 1 if np.array_equal(quick, numbers, equal_nan=True) else -(10**9)


def _places(line: str, numbers: list[float]) -> re.Pattern[str] | None:
    """A pattern that finds the same numbers in lines of the same form; None where they do not stand there in this order."""
    parts: list[str] = []
    end, hidden = 0, [found.span() for found in _NO_DATA.finditer(line)]
    free = [f for f in _NUMBER.finditer(line) if not any(a < f.end() and f.start() < b for a, b in hidden)]
    for found in free:
        if len(parts) < len(numbers) and float(found[1].replace(",", "")) == numbers[len(parts)]:
            parts.append(
                _DIGITS.sub("[0-9]+", re.escape(line[end : found.start(1)]))
                + "("
                + _DIGITS.sub("[0-9]+", re.escape(found[1]))
                + ")"
            )
            end = found.end(1)
    if not parts or len(parts) != len(numbers):
        return None
    return re.compile("".join(parts) + _DIGITS.sub("[0-9]+", re.escape(line[end:])))


def _thoroughly(line: str, state: State) -> tuple[Shape | None, list[float]]:
    """Read a line by its words; the shape it was put to, and its numbers."""
    if "\x1b" in line or "\x08" in line:
        line = _ANSI.sub("", line)
    _mind_the_end(line, state)
    if line.startswith(("|", "-", "+", "=")) and _table(line, state):
        return None, []
    if _together(line, state):
        return None, []
    if "overflow" in line.lower() and (told := _RESCALED.search(line)):
        state.tables.append((state.lines, Record({"amp/scale": float(told[1])})))
        state.cells += 1
        return None, []
    if state.heading is not None and (phrase := state.heading.phrase(line)) is not None:
        line = phrase
    elif (row := _YOLO.match(line)) is not None:
        line = YOLO.phrase(row[1]) or line
    if not _HINT.search(line):
        _setting(line, state)
        return None, []
    if (heading := heading_of(line)) is not None:
        state.heading = heading
        return None, []
    if _PHRASED.search(line):
        for pattern, ours in _PHRASES:
            line = pattern.sub(ours, line)
    return _shape(_GLUED.sub(_apart, _NO_DATA.sub(" ", line)), state)


def _apart(found: re.Match[str]) -> str:
    return f"{'epoch' if found[1][0] in 'eE' else found[1]} {found[2]}"


def _shape(line: str, state: State) -> tuple[Shape | None, list[float]]:
    texts: list[str] = []
    numbers: list[float] = []
    units: list[str] = []
    end = 0
    for found in _NUMBER.finditer(line):
        text = line[end : found.start()]
        if not found[1][-1].isdigit() and found[1][-1] != "." and not (_words(text).sure or _words(text).telling):
            continue  # "number of nan iterations"
        texts.append(_plain_space(text))
        numbers.append(float(found[1].replace(",", "")))
        units.append((found[2] or "").lower())
        end = found.end()
        if len(numbers) >= MOST_NUMBERS:
            break
    if not numbers:
        _setting(line, state)
        return None, []
    key = (*texts, ")" if line[end : end + 1] == ")" else "")
    shape = state.shapes.get(key)
    if shape is None:
        if len(state.shapes) >= MOST_SHAPES:
            state.shapes = {k: s for k, s in state.shapes.items() if len(s.lines) > 1}
        shape = state.shapes[key] = _understood(key, tuple(units))
        shape.source = bool(_SOURCE.search(line))
        if not shape.telling:
            _setting(line, state)
    state.cells += len(numbers) * shape.add(state.lines, numbers)
    return shape, numbers


def _plain_space(text: str) -> str:
    """Numbers are padded to a width: how many blanks stand before one does not matter."""
    bare = text.rstrip(" ")
    return f"{bare} " if len(bare) < len(text) else text


def _understood(key: tuple[str, ...], units: tuple[str, ...]) -> Shape:
    before = tuple(_words(text) for text in key[:-1])
    splits, split = [], ""
    for one in before:
        split = one.split or split
        splits.append(split)
    return Shape(key, units, before, tuple(splits))


def _table(line: str, state: State) -> bool:
    """A table of two columns, as the loggers of RL libraries print it: one record, and its rows are the columns."""
    row = _ROW.match(line)
    if row is None:
        if state.table and _RULER.match(line):
            _close_table(state)
            return True
        return False
    key, value = row[1], row[2]
    if not value:
        state.section = key if key.endswith("/") else ""
        return True
    try:
        number = float(value)
    except ValueError:
        return bool(state.table)
    state.table[key if "/" in key else state.section + key] = number
    return True


def _close_table(state: State) -> None:
    values, state.table, state.section = state.table, {}, ""
    if len(values) < 2:
        return
    counters = {name.rsplit("/", 1)[-1].strip(): name for name in values}
    name = next((counters[c] for c in _COUNTERS if c in counters), "")
    step = values.pop(name) if name else math.nan
    state.tables.append((state.lines, Record(values, step=step)))
    state.cells += len(values)


def _mind_the_end(line: str, state: State) -> None:
    """Notice how the script ended, an uncaught exception or a kill, and what it says of itself."""
    if (message := said_in(line)) is not None:
        told = state.said.setdefault(message.key, Said(state.lines, line.strip()[:300], 0))
        told.count, told.last = told.count + 1, state.lines
    bare = _RANK.sub("", line)
    if bare.startswith("Traceback (most recent call last)"):
        state.error, state.error_at = ("Exception", ""), state.lines
    elif bare[:1].isalpha() and (found := _ERROR.match(bare)) and (found[2] or state.error is not None):
        state.error, state.error_at = (found[1], found[2]), state.lines
    elif "SIGTERM" in line or "CANCELLED" in line or "DUE TO TIME LIMIT" in line:
        state.killed = True


def _together(line: str, state: State) -> bool:
    """Take the settings of a line that holds all of them, or of the command that began the run."""
    told = _TOGETHER.search(line) if line.rstrip().endswith((")", "}")) else None
    command = _COMMAND.search(line) if ".py " in line else None
    pairs = _PAIR.findall(told[1] or told[2] or "") if told else options(command[1].split()) if command else ()
    for key, value in [*pairs][: MOST_SETTINGS - len(state.settings)]:
        state.settings.setdefault(key, _literal(value) if isinstance(value, str) else value)
    return bool(told)


def _setting(line: str, state: State) -> None:
    if len(state.settings) >= MOST_SETTINGS:
        return
    bare = line.partition("#")[0].strip().rstrip(",") if len(line) < 200 else ""
    key, sign, value = bare.partition("=" if "=" in bare else ":")
    key, value = key.strip(" \t\"'"), value.strip()
    if sign and 0 < len(value) <= 120 and len(value.split()) <= 3 and _SETTING.fullmatch(key):
        state.settings.setdefault(key, _literal(value))
    elif "vocab_size" in line and (told := _VOCAB.search(line)):
        state.settings.setdefault("vocab_size", int(told[1]))


def _literal(text: str) -> Any:
    bare = text.strip().strip("\"',")
    if bare in ("True", "true"):
        return True
    if bare in ("False", "false"):
        return False
    try:
        value = float(bare)
    except ValueError:
        return bare
    return (
        int(value)
        if value == value and abs(value) < 2**53 and value == int(value) and "." not in bare and "e" not in bare.lower()
        else value
    )


@lru_cache(maxsize=8192)
def _words(before: str) -> Words:
    key = _key(before)
    told = meaning(key) if key else _NOTHING
    split = ""
    for word in words(before):
        split = next((s for s, names in SPLITS.items() if word in names), split)
    bare = before.strip()
    return Words(
        key,
        split,
        before.rstrip(" ['\"(").endswith((":", "=")),
        bare == "/",
        bare == "(",
        bare.endswith(("[", "|", "]", ":", "(")),
        "|" in before,
        _place_role(key, told),
        told.role in TELLING or _bare_split(key) or words(key) == ("total",),
    )


def _bare_split(key: str) -> bool:
    """Whether a key says which data and nothing else, as in "train 2.31 val 2.40"."""
    have = words(key)
    return 0 < len(have) <= 2 and _ALL_SPLITS.issuperset(have)


def _place_role(key: str, told: Meaning) -> str:
    """The role of a key that may tell the place; "validation at step" does, "eval_iters" does not."""
    if told.role not in ("step", "epoch") and key:
        told = meaning(key.split()[-1])
    return told.role if told.split not in ("val", "test") else ""


def _key(before: str) -> str:
    """The words that belong to the number after them; empty when there are none or they are arithmetic."""
    text = before.rstrip(" \t:=([{\"'~")
    if player := _PLAYER.search(text):
        return player[1]
    if not text or text.endswith(_OPERATORS) or before.rstrip().endswith(("/", "-", "<", ">")):
        return ""
    if text.endswith(")") and (open_ := text.rfind("(")) > 0:
        unit = text[open_ + 1 : -1]
        text = f"{text[:open_].rstrip()} {unit}" if unit.isalpha() and len(unit) < 8 else text[:open_].rstrip()
    tail = [part for part in _CUT.split(text) if part and part.strip()]
    last = tail[-1] if tail else ""
    last = re.split(r"[:=]\s|[:=]$|\)", last)[-1].strip(" :=().#*_")
    parts = last.split()[-5:]
    while parts and not any(c.isalpha() for c in parts[0]):
        parts = parts[1:]
    return " ".join(parts)[:60]


# -- all lines of a shape


def plan_of(shape: Shape) -> Plan:
    """What each number of a shape is, by its words and by how it behaves from line to line."""
    table = shape.table()
    plan = Plan()
    used = _place(shape, table, plan)
    named = _names(shape, table, used)
    for i, name in named.items():
        column = _column(name, shape.splits[i], shape.units[i], shape.before[i].sure)
        if column.taken and not meaning(name).split and _like(column.name, plan.columns):
            column = _column(name, "", shape.units[i], shape.before[i].sure)  # "val_loss: 5.8 loss: 6.4" holds two splits
        if column.taken and column.name not in plan.columns:
            plan.columns[column.name] = i + (_is_mean(shape, table, i + 1))
            plan.telling = plan.telling or column.telling
    if plan.telling and not plan.placed:
        _bare_counter(shape, table, plan)
    return plan


def _like(name: str, taken: Iterable[str]) -> bool:
    """Whether a column of the same meaning is there already."""
    told = meaning(name)
    return any((m.role, m.split) == (told.role, told.split) and m.role != "metric" for m in map(meaning, taken))


def _place(shape: Shape, table: Floats, plan: Plan) -> set[int]:
    """Find step, epoch and place within the epoch; returns the indexes of the numbers that were used for it."""
    used: set[int] = set()
    for i, before in enumerate(shape.before):
        if i in used or not np.isfinite(table[:, i]).all():
            continue
        of = _of_how_many(shape, table, i)
        if before.role == "step" and not of and len(table) > 2 and np.ptp(table[:, i]) == 0:
            pass  # "Eval batches[100]": how many there were, not where the run is
        elif before.role == "step" and plan.step < 0 and table[:, i].min() >= 0:
            plan.step = i
            if of:
                plan.planned = float(table[-1, i + 1])
        elif before.role == "epoch" and plan.epoch < 0:
            plan.epoch = i
            plan.epochs = float(table[-1, i + 1]) if of else plan.epochs
        elif of and before.bar and plan.epoch < 0 and shape.by_epoch:
            plan.epoch, plan.epochs, plan.finished = i, float(table[-1, i + 1]), True  # the outer one of two progress bars
        elif (
            of and plan.inner < 0 and not shape.units[i] and (before.opens or (i == 0 and not before.key) or _counts(table, i))
        ):
            plan.inner, plan.total, plan.bar = i, i + 1, before.bar
        elif of and plan.inner == i - 2 >= 0 and plan.epoch < 0 and before.opens and not before.key:
            plan.epoch, plan.inner, plan.total = plan.inner, i, i + 1  # "[0/25][100/1583]": epoch, then batch
        else:
            continue
        used.add(i)
        if of:
            used.add(i + 1)
    if plan.step >= 0 and plan.epoch >= 0 and plan.inner < 0 and math.isfinite(plan.planned):
        _within_epochs(table, plan)
    return used


def _within_epochs(table: Floats, plan: Plan) -> None:
    """ "Epoch [2/5], Step [100/600]": a step that does not grow as the epoch does is a place within the epoch."""
    grown = np.diff(table[:, plan.epoch]) > 0
    if np.any(grown & (np.diff(table[:, plan.step]) <= 0)):
        plan.inner, plan.total, plan.step, plan.planned = plan.step, plan.step + 1, -1, math.nan


def _counts(table: Floats, i: int) -> bool:
    """Whether a number goes up by the same whole step from nearly every line to the next: a count, whatever its name."""
    steps = np.diff(table[:, i])
    return len(steps) > 10 and bool(np.mean((steps == np.median(steps)) & (steps >= 1)) > 0.9)


def _of_how_many(shape: Shape, table: Floats, i: int) -> bool:
    """Whether the next number says of how many this one is: "100/5000", not "0.5/0.8"."""
    if i + 1 >= len(shape.before) or not shape.before[i + 1].of:
        return False
    of = table[:, i + 1]
    within = np.all(of >= table[:, i]) or (np.ptp(of) == 0 and _counts(table, i))  # an epoch may be longer than was thought
    return bool(within and np.all(table[:, i : i + 2] == np.round(table[:, i : i + 2])))


def _names(shape: Shape, table: Floats, used: set[int]) -> dict[int, str]:
    """The numbers that have a name: "loss/acc 0.5/0.8" holds two, "train 0.5" is a loss when nothing else is."""
    out: dict[int, str] = {}
    losses = {s for b, s in zip(shape.before, shape.splits, strict=True) if meaning(b.key).role in ("loss", "part")}
    for i, before in enumerate(shape.before):
        if i in used or not before.key:
            continue
        name = before.key
        if _bare_split(name):
            if before.split in losses or np.all(table[:, i] == np.round(table[:, i])):
                continue  # "train 640": a count
            name = f"{name} {_figure(table[:, i])}"
        elif words(name) == ("total",) and not losses:
            name = "total loss"  # "Rec=0.20, KL=149.8, Total=1.70"
        joined = name.split()[-1].split("/")
        if len(joined) > 1 and all(meaning(part).role in (*TELLING, "metric") for part in joined):
            start = " ".join(name.split()[:-1])
            following = [j for j in range(i + 1, min(i + len(joined), len(shape.before))) if shape.before[j].of]
            if len(following) == len(joined) - 1:
                out |= {j: f"{start} {part}".strip() for j, part in zip((i, *following), joined, strict=True)}
                continue
        out[i] = name
    return out


def _figure(values: Floats) -> str:
    """What "train 0.5" is: a loss; or an accuracy, when it is a share and rises."""
    finite = values[np.isfinite(values)]
    third = len(finite) // 3
    share = len(finite) >= 6 and finite.min() >= 0 and finite.max() <= 1
    return "accuracy" if share and np.median(finite[-third:]) > np.median(finite[:third]) + 0.02 else "loss"


def _is_mean(shape: Shape, table: Floats, j: int) -> bool:
    """Whether number j is the running mean of the one before it: "2.31 (2.40)"; it is the smoother record of the two."""
    if j >= len(shape.before) or not shape.before[j].inside or not shape.texts[j + 1].startswith(")") or shape.units[j] == "%":
        return False
    one, mean = table[:, j - 1], table[:, j]
    fine = np.isfinite(one) & np.isfinite(mean)
    one, mean = one[fine], mean[fine]
    if not len(one) or not np.all(np.abs(mean - one) <= 0.9 * np.maximum(np.abs(mean), np.abs(one))):
        return False
    return len(one) < 4 or np.ptp(one) == 0 or np.ptp(mean) == 0 or float(np.corrcoef(one, mean)[0, 1]) > 0.2


def _bare_counter(shape: Shape, table: Floats, plan: Plan) -> None:
    """A count without a name before the first measurement: "180 | train 1.14 | val 1.22"."""
    first = min(plan.columns.values())
    for i in range(first):
        column = table[:, i]
        whole = np.isfinite(column).all() and bool(np.all(column == np.round(column))) and column.min() >= 0
        if shape.before[i].key or not whole or len(column) < 3 or np.mean(np.diff(column) > 0) < 0.8:
            continue
        splits = {meaning(name).split for name in plan.columns}
        if np.median(np.diff(column)) == 1 and "val" in splits and len(splits) > 1:
            plan.epoch = i
        else:
            plan.step = i
        return


@dataclass(frozen=True)
class Column:
    """What a key becomes on a line: the name of a column, or nothing."""

    name: str
    taken: bool
    telling: bool


@lru_cache(maxsize=8192)
def _column(key: str, split: str, unit: str, sure: bool) -> Column:
    """The column for a key: with the split of the line and the unit of the number where the key lacks them."""
    name = key
    m = meaning(name)
    if split in ("val", "test") and not m.split and m.role in (*TELLING, "metric", "duration"):
        name = f"{split} {name}"
    if unit in ("m", "g") and m.role == "memory":
        unit += "b"
    if unit in ("ms", "gb", "gib", "mb", "mib") and m.role in ("duration", "data_time", "memory"):
        name = f"{name} ({unit})"
    m, have = meaning(name), set(words(name))
    if m.role == "ignored" or _CHATTER & have or have <= _ALL_SPLITS or len(name) > 60:
        return Column(name, False, False)
    known = m.role != "metric" or (bool(direction(name)) and not have & NOT_LOSS)
    taken = sure or (known and _plain_words(key))
    return Column(name, taken, taken and (m.role in TELLING or (m.role == "metric" and known)))


def _plain_words(key: str) -> bool:
    """Whether a key without colon is short and ends in the word that counts: "train loss", not "very nice loss of"."""
    parts = key.split()
    return len(parts) <= 3 and parts[-1].lower() not in _LINKS


# -- the file


def read(lines: Iterable[str]) -> State:
    """The shapes of some lines."""
    state = State()
    for line in lines:
        state.lines += 1
        take(line, state)
    return state


def records_of(state: State) -> list[Record]:
    """Every record in the order of printing, each with the last place that was told before it."""
    shapes = list(state.shapes.values())
    plans = [plan_of(shape) for shape in shapes]
    again = [shape.lines[0] for shape, plan in zip(shapes, plans, strict=True) if plan.telling and len(shape.lines) > 2]
    begun = min(again, default=-1)  # before it: settings, source code, examples
    often = [plan for shape, plan in zip(shapes, plans, strict=True) if plan.telling and plan.placed and len(shape.lines) > 2]
    known = {name for plan in often for name in plan.columns}
    rows: list[tuple[int, int, int]] = []
    for k, (shape, plan) in enumerate(zip(shapes, plans, strict=True)):
        rare = len(shape.lines) < 3
        if not plan.telling and (not plan.placed or len(shape.lines) == 1):
            continue
        if rare and (shape.source or shape.lines[0] < begun or _CHATTER.intersection(words(shape.texts[0]))):
            continue  # before the training began to print, program text, or a look back at what was best
        if often and not plan.placed and (_still(shape) or (rare and known.issuperset(plan.columns))):
            continue  # a setting that was printed again, or a stray repetition without a place
        rows += [(line, k, i) for i, line in enumerate(shape.lines)]
        if math.isfinite(plan.planned):
            state.planned = plan.planned
        if math.isfinite(plan.epochs):
            state.epochs = plan.epochs
    tables = {line: i for i, (line, _) in enumerate(state.tables)}
    rows += [(line, -1, i) for line, i in tables.items()]
    return list(_placed(sorted(rows), [s.table() for s in shapes], plans, state))


def _still(shape: Shape) -> bool:
    """Numbers that are the same on every line: a setting that was printed again."""
    return len(shape.lines) > 1 and bool(np.all(shape.table() == shape.table()[0]))


def _placed(rows: Sequence[tuple[int, int, int]], tables: list[Floats], plans: list[Plan], state: State) -> Iterable[Record]:
    epoch = step = math.nan
    last = Record({})
    for line, k, i in rows:
        if k < 0:
            record = state.tables[i][1]
            if "amp/scale" in record.values:  # a line that says the loss scale was lowered belongs to the record before it
                record = Record(record.values, last.step, last.epoch, last.inner, last.total, last.bar)
            record.line = line
            yield record
            continue
        plan, row = plans[k], tables[k][i]

        def at(index: int, row: Floats = row) -> float:
            return float(row[index]) if index >= 0 else math.nan

        here = Record({}, at(plan.step), at(plan.epoch), at(plan.inner), at(plan.total), plan.bar, line)
        if not plan.telling:
            if not math.isnan(here.epoch):
                epoch, step = here.epoch, math.nan
            if not math.isnan(here.step):
                step = here.step
            continue
        here.values = {name: float(row[j]) for name, j in plan.columns.items()}
        if math.isnan(here.epoch):
            here.epoch = epoch
        else:
            epoch = here.epoch + plan.finished
        if math.isnan(here.step) and math.isnan(here.inner):
            here.step = step
        last = here
        yield here
