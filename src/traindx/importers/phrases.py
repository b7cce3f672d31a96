"""One printed line: its numbers, the words that belong to them, and where in the training it stands."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from traindx.importers.aliases import Meaning, meaning, words
from traindx.importers.heading import TELLING, Heading, heading_of
from traindx.importers.lexicon import DOWN, SPLITS, UP

LONGEST = 4000  # characters of a line that are looked at
MOST_SETTINGS = 500

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f]")
_HINT = re.compile(r"loss|epoch|step|iter|acc|ppl|perplexity|cost|objective|update|[DG]_[A-Za-z]|\d/\d", re.I)
_NUMBER = re.compile(
    r"(?<![\w.@\\])(?<![A-Za-z][-/])([-+]?(?:\d[\d_]*+\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?|[-+]?(?:nan|inf|infinity)(?![\w]))"
    r"\s?(ms|sec|s|GiB|GB|MiB|MB|%|G|M|K)?(?![\w.])",
    re.I,
)
_CUT = re.compile(r"[,;|{}\[\]<>\t\"']|\s{2,}|\s-+\s|\s·\s|=>|->|\)\s")
_OPERATORS = ("*", "+", "%", "==", "<=", ">=", "!=", "//", "**", "+=", "-=", "*=")
_SETTING = re.compile(r"[A-Za-z_][\w.]{1,60}")
_ERROR = re.compile(r"^([A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit|OutOfMemory)):?\s*(.{0,300})$")
_VOCAB = re.compile(r"vocab_size (?:of GPT-2 to|=|:)\s*(\d+)")
_NOTHING = Meaning("")
_ROW = re.compile(r"^\|\s+([A-Za-z][^|]{0,58}?)\s*\|\s*([^|\s]*)\s*\|\s*$")
_RULER = re.compile(r"^[-+=|]{5,}\s*$")
_COUNTERS = ("total_timesteps", "timesteps_total", "total timesteps", "env_steps", "TotalEnvInteracts", "iterations", "Epoch")
_RESCALED = re.compile(
    r"(?:reducing|setting|lowering)\b[^\d\n]{0,30}\bto:? *([\d.]+(?:e[-+]?\d+)?)", re.I
)  # apex, fairseq, DeepSpeed
_PLAYER = re.compile(r"(?:^|[\s,|])(D\((?:x|G\(z\))\))$")  # what DCGAN scripts print of the discriminator
_CHATTER = frozenset(
    ["improved", "from", "than", "best", "was", "reached", "patience", "early", "saving", "target", "minimum", "lowest"]
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
_PHRASED = re.compile(r"\depoch[: ]|objective function|poch\((?:train|val|test)\)")


@dataclass(frozen=True)
class Words:
    """The text between two numbers, understood; the same few texts come back on every line."""

    key: str  # the words that belong to the number after it
    split: str  # the split the last telling word names
    sure: bool  # a colon or an equals sign ties key and number
    of: bool  # only a slash: the number after it says of how many
    opens: bool  # a bracket, bar or colon just before the number
    bar: bool
    role: str  # of the key, unless it speaks of evaluation
    telling: bool


@dataclass(frozen=True)
class Column:
    """What a key becomes on a line: the name of a column, or nothing."""

    name: str
    taken: bool
    telling: bool


@dataclass
class Pair:
    """A number in a line with the words before it."""

    before: Words
    value: float
    unit: str = ""
    split: str = ""


@dataclass
class Record:
    """One printed line that holds measurements, with its place."""

    values: dict[str, float]
    step: float = math.nan
    epoch: float = math.nan
    inner: float = math.nan  # place within the epoch or bar
    total: float = math.nan  # of how many
    bar: bool = False


@dataclass
class State:
    records: list[Record] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    epoch: float = math.nan
    step: float = math.nan
    planned: float = math.nan  # steps in "step 10/5000"
    lines: int = 0
    error: tuple[str, str] | None = None
    killed: bool = False
    cells: int = 0
    dropped: int = 0
    section: str = ""  # of a printed table: "rollout/"
    table: dict[str, float] = field(default_factory=dict)  # its rows so far
    heading: Heading | None = None  # the names that stood over the numbers last


def take(line: str, state: State) -> None:
    if len(line) > LONGEST:
        line = line[:LONGEST]
    if "\x1b" in line or "\x08" in line:
        line = _ANSI.sub("", line)
    _mind_the_end(line, state)
    if line.startswith(("|", "-", "+", "=")) and _table(line, state):
        return
    if "overflow" in line.lower() and (told := _RESCALED.search(line)):
        _rescaled(float(told[1]), state)
        return
    if state.heading is not None and (phrase := state.heading.phrase(line)) is not None:
        line = phrase
    if not _HINT.search(line):
        _setting(line, state)
        return
    if (heading := heading_of(line)) is not None:
        state.heading = heading
        return
    if _PHRASED.search(line):
        for pattern, ours in _PHRASES:
            line = pattern.sub(ours, line)
    pairs = _pairs(line)
    if not pairs:
        return
    record = _record(pairs, state)
    if record is not None:
        state.records.append(record)
        state.cells += len(record.values)
    else:
        _setting(line, state)


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
    state.records.append(Record(values, step=step))
    state.cells += len(values)


def _rescaled(scale: float, state: State) -> None:
    """A line that says the loss scale was lowered belongs to the record before it."""
    at = state.records[-1] if state.records else Record({}, epoch=state.epoch, step=state.step)
    state.records.append(Record({"amp/scale": scale}, at.step, at.epoch, at.inner, at.total, at.bar))
    state.cells += 1


def _mind_the_end(line: str, state: State) -> None:
    """Notice how the script ended: an uncaught exception, a kill."""
    if line.startswith("Traceback (most recent call last)"):
        state.error = ("Exception", "")
    elif state.error is not None and line[:1].isalpha() and (found := _ERROR.match(line)):
        state.error = (found[1], found[2])
    elif "SIGTERM" in line or "CANCELLED" in line or "DUE TO TIME LIMIT" in line:
        state.killed = True


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


def _pairs(line: str) -> list[Pair]:
    """Every number of a line with its words, and the split that the words so far name."""
    out: list[Pair] = []
    end, split = 0, ""
    for found in _NUMBER.finditer(line):
        before = _words(line[end : found.start()])
        try:
            value = float(found[1])
        except ValueError:
            continue
        if not math.isfinite(value) and not (before.sure or before.telling):
            continue  # "number of nan iterations"
        end = found.end()
        split = before.split or split
        out.append(Pair(before, value, (found[2] or "").lower(), split))
        if len(out) > 200:
            break
    return out


@lru_cache(maxsize=8192)
def _words(before: str) -> Words:
    key = _key(before)
    told = meaning(key) if key else _NOTHING
    split = ""
    for word in words(before):
        split = next((s for s, names in SPLITS.items() if word in names), split)
    bare = before.rstrip()
    return Words(
        key,
        split,
        before.rstrip(" ['\"(").endswith((":", "=")),
        before.strip() == "/",
        bare.endswith(("[", "|", "]", ":", "(")),
        "|" in before,
        _place_role(key, told),
        told.role in TELLING,
    )


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
    while parts and not re.search(r"[A-Za-z]", parts[0]):
        parts = parts[1:]
    return " ".join(parts)[:60]


def _record(pairs: list[Pair], state: State) -> Record | None:
    """The measurements of a line; None when it only tells where we are."""
    place = Record({})
    used = _place(pairs, place, state)
    telling = False
    for i, pair in enumerate(pairs):
        if i in used or not pair.before.key:
            continue
        column = _column(pair.before.key, pair.split, pair.unit, pair.before.sure)
        if column.taken and column.name not in place.values:
            place.values[column.name] = pair.value
            telling = telling or column.telling
    if not telling:
        if not math.isnan(place.epoch):
            state.epoch, state.step = place.epoch, math.nan
        if not math.isnan(place.step):
            state.step = place.step
        return None
    if math.isnan(place.epoch):
        place.epoch = state.epoch
    else:
        state.epoch = place.epoch
    if math.isnan(place.step) and math.isnan(place.inner):
        place.step = state.step
    return place


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
    known = m.role != "metric" or bool(have & (UP | DOWN))
    taken = sure or (known and _plain_words(key))
    return Column(name, taken, taken and (m.role in TELLING or (m.role == "metric" and known)))


def _plain_words(key: str) -> bool:
    """Whether a key without colon is short and ends in the word that counts: "train loss", not "very nice loss of"."""
    parts = key.split()
    return len(parts) <= 3 and parts[-1].lower() not in _LINKS


def _place(pairs: list[Pair], place: Record, state: State) -> set[int]:
    """Find step, epoch and place within the epoch; returns the indexes of the numbers that were used for it."""
    used: set[int] = set()
    last = len(pairs) - 1
    for i, pair in enumerate(pairs):
        if i in used or not math.isfinite(pair.value):
            continue
        before = pair.before
        of = pairs[i + 1].value if i < last and pairs[i + 1].before.of and pairs[i + 1].value >= pair.value else math.nan
        if before.role == "step" and math.isnan(place.step) and pair.value >= 0:
            place.step = pair.value
            if of > pair.value:
                state.planned = of
        elif before.role == "epoch" and math.isnan(place.epoch):
            place.epoch = pair.value
        elif not math.isnan(of) and math.isnan(place.inner) and not pair.unit and (before.opens or (i == 0 and not before.key)):
            place.inner, place.total, place.bar = pair.value, of, before.bar
        elif i == 2 and used == {0, 1} and not math.isnan(of) and math.isnan(place.epoch) and before.opens and not before.key:
            place.epoch, place.inner, place.total = place.inner, pair.value, of  # "[0/25][100/1583]": epoch, then batch
        else:
            continue
        used.add(i)
        if not math.isnan(of):
            used.add(i + 1)
    return used
