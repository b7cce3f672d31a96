"""Tables in text: CSV, TSV, semicolons, pipes, aligned columns. Lightning's metrics.csv, Keras' CSVLogger, W&B's exports and
YOLO's results.csv are such tables, told apart by their headers.

Rows may be longer or shorter than the header; a quote that never closes costs its row and not the rest of the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from traindx.errors import NothingReadable
from traindx.importers import axis
from traindx.importers.aliases import meaning, words
from traindx.importers.source import MAX_COLUMNS, MAX_LINE, Lines, Source, decode
from traindx.importers.table import Log, Options, Rows, clean_name, number

BLOCK = 4096  # rows converted at a time
MAX_CELL = 200_000  # characters of one quoted cell
_SAYS = re.compile(r"[:=]\s*[-+]?[\d.]")  # "loss: 0.5", which a header does not say
_CHANGING = re.compile(r"[\d.# ]+")  # what differs between printed lines of one shape
_KERAS = re.compile(r"(val_)?[a-z][a-z0-9_]*")  # its column names
_STAMPED = re.compile(r"\W{0,2}\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d,\d{3}\b")
DELIMITERS = (",", "\t", ";", "|")


@dataclass
class Shape:
    """How a table is written: its delimiter ("" is white space), its header, and what its decimals look like."""

    delimiter: str
    header: list[str] = field(default_factory=list)
    decimal: str = "."
    named: bool = True  # False: the file has no header line


def can_read(source: Source) -> bool:
    """Whether this looks like a table of numbers with a header."""
    if source.binary:
        return False
    shape = shape_for(source)
    return shape is not None and (shape.named or source.stem.lower().endswith((".csv", ".tsv")))


def read(source: Source, options: Options) -> list[Log]:
    """The runs' columns of a table."""
    rows, shape, notes = table(source, options)
    if not rows.columns():
        raise NothingReadable(f"{source.name}: the table has a header but no numbers ({', '.join(shape.header[:8])})")
    if _one_row_per_run(rows, shape):
        raise NothingReadable(
            f"{source.name}: the rows look like one line per finished run ({', '.join(shape.header[:6])}), not like a curve; "
            "give the log of one run, or name the counting column with --map COLUMN=step"
        )
    kind = _kind(source, shape)
    logs = axis.logs_of(rows, "csv", source.name)
    for log in logs:
        log.kind = kind
        log.notes.extend(notes)
        _dressed(log)
    return logs


def _kind(source: Source, shape: Shape) -> str:
    """Who wrote the table, by its header: Ultralytics, Lightning's CSVLogger, Keras, or nobody that is known."""
    names = {n.strip() for n in shape.header}
    detector = sum(n.startswith("train/") and n.endswith("_loss") for n in names) >= 2
    if detector and any("mAP" in n or n.startswith("metrics/") for n in names):
        return "ultralytics"
    if source.stem.lower().startswith("metrics") and {"epoch", "step"} <= names:
        return "lightning"
    steps = any(meaning(n).role in ("step", "log_step", "samples", "tokens") for n in names)
    keras = shape.named and {"loss", "val_loss"} <= names and not steps and all(_KERAS.fullmatch(n) for n in names)
    return "keras" if keras else "csv"


def _dressed(log: Log) -> None:
    """What the writer leaves unsaid: Keras and Ultralytics write a row for each epoch, with means over it."""
    if log.kind == "ultralytics":
        log.forms.update({n: "window-mean" for n in log.tracks if meaning(n).role in ("loss", "part")})
        log.forms["loss/train"] = "window-mean"
    if log.kind == "keras":
        log.forms["loss"] = "window-mean"
        if log.unit == "record":
            log.unit = "epoch"
            log.notes = [n for n in log.notes if "no step or epoch column" not in n]
            log.notes.append("there is no epoch column; rows are counted as epochs, as Keras writes them")


def table(source: Source, options: Options) -> tuple[Rows, Shape, list[str]]:
    """The numbers of a table by column, how it was written, and what went wrong on the way."""
    shape = shape_for(source)
    if shape is None:
        raise NothingReadable(f"{source.name}: is not a table with a delimiter and a header line")
    lines = Lines(source)
    cells = Cells(lines, shape)
    rows = Rows(options.axes)
    names = _unique(shape.header)
    for block in _blocks(cells):
        _add(rows, names, block, shape)
    return rows, shape, _told(cells, lines, shape, rows)


def _told(cells: Cells, lines: Lines, shape: Shape, rows: Rows) -> list[str]:
    notes = []
    if cells.ragged:
        notes.append(f"{cells.ragged} rows were longer or shorter than the header; their cells were taken from the left")
    if cells.unclosed:
        notes.append(f"{cells.unclosed} rows with a quote that never closes were skipped")
    if lines.cut:
        notes.append(f"{lines.cut} lines of more than {lines.longest >> 20} MB were skipped")
    if shape.decimal == ",":
        notes.append("numbers are written with a decimal comma")
    if not shape.named:
        notes.append("the table has no header; its columns are called column_1, column_2 … and --map gives them a meaning")
    if len(shape.header) > MAX_COLUMNS:
        notes.append(f"{len(shape.header) - MAX_COLUMNS} of {len(shape.header)} columns were skipped")
    return notes


def shape_for(source: Source) -> Shape | None:
    """The shape of the table in a file; a header of more than 64 KiB is read to its end."""
    head = source.text_head
    if len(source.head) >= 65536 and head.count("\n") + head.count("\r") < 2:
        head = decode(source.whole(2 * MAX_LINE))
    return shape_of(head)


@lru_cache(maxsize=32)
def shape_of(text: str) -> Shape | None:
    """The shape of the table that a text begins with; None when it is no table."""
    lines = [line for line in text.splitlines()[:200] if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        return None
    sample = lines[:30]
    if sum(bool(_STAMPED.match(line)) for line in sample) > 0.5 * len(sample):
        return None  # a logger's lines: the comma parts seconds from their thousandths
    best = max(DELIMITERS, key=lambda d: _consistency(sample, d))
    if _consistency(sample, best) <= 0:
        if _single_column(sample):
            return _headed(sample, "\n")
        return _headed(sample, "") if _aligned(sample) else None
    return _headed(sample, best)


def _consistency(sample: list[str], delimiter: str) -> float:
    """How well a delimiter explains the lines: cells in the header, times the share of lines with about as many."""
    if delimiter not in sample[0]:
        return 0.0
    counts = [len(_cut(line, delimiter)) for line in sample]
    if counts[0] < 2:
        return 0.0
    near = sum(0.3 * counts[0] <= c <= counts[0] + 1 for c in counts) / len(counts)
    numeric = _numeric_share(sample[1:], delimiter)
    # a decimal comma makes the comma look like a delimiter: prefer the one whose cells are numbers
    return counts[0] * near * (0.1 + numeric) if near > 0.6 and (numeric > 0.2 or len(sample) == 1) else 0.0


def _numeric_share(lines: list[str], delimiter: str) -> float:
    cells = [c for line in lines[:20] for c in _cut(line, delimiter) if c.strip()]
    good = sum(number(c, "," if delimiter in (";", "\t", "|") else ".") is not None for c in cells)
    return good / len(cells) if cells else 0.0


def _cut(line: str, delimiter: str) -> list[str]:
    if delimiter == "":
        return line.split()
    if delimiter == "\n":
        return [line]
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def _aligned(sample: list[str]) -> bool:
    """A table aligned by blanks: a header of words over rows of as many numbers."""
    counts = [len(line.split()) for line in sample]
    if counts[0] < 2 or len(sample) < 3:
        return False
    same = sum(c == counts[0] for c in counts) / len(counts)
    numeric = sum(number(c) is not None for line in sample[1:10] for c in line.split())
    total = sum(len(line.split()) for line in sample[1:10])
    return same > 0.9 and numeric > 0.8 * total and sum(number(c) is None for c in sample[0].split()) == counts[0]


def _single_column(sample: list[str]) -> bool:
    return (
        len(sample) > 2 and number(sample[0]) is None and len(sample[0]) < 60 and all(number(s) is not None for s in sample[1:])
    )


def _headed(sample: list[str], delimiter: str) -> Shape | None:
    first = [c.strip() for c in _cut(sample[0], delimiter)]
    named = sum(number(c) is None and bool(c) for c in first) >= max(1, 0.5 * len(first))
    header = first if named else [f"column_{i + 1}" for i in range(len(first))]
    if sum(bool(_SAYS.search(c)) for c in first) >= 2 or any("{" in c for c in first):
        return None  # a printed line or JSON that happens to hold the delimiter, not a header
    if delimiter not in (",", "") and named and not any(_worded(c) for c in header):
        return None
    bones = [_CHANGING.sub("0", line) for line in sample]
    if named and len(bones) > 2 and bones.count(bones[0]) > 0.5 * len(bones):
        return None  # the first line is one like the others, and no heading
    commas = [c for line in sample[1:] for c in _cut(line, delimiter) if re.fullmatch(r"\s*-?\d+,\d+\s*", c)]
    points = [c for line in sample[1:] for c in _cut(line, delimiter) if re.fullmatch(r"\s*-?\d+\.\d+\s*", c)]
    decimal = "," if delimiter != "," and len(commas) > len(points) else "."
    return Shape(delimiter, header, decimal, named)


def _worded(cell: str) -> bool:
    return any(c.isalpha() for c in cell)


def _unique(header: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for i, raw in enumerate(header[:MAX_COLUMNS]):
        name = clean_name(raw.strip().strip('"')) or f"column_{i + 1}"
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return out


class Cells:
    """The rows of a table as lists of cells, header and comments left out."""

    def __init__(self, lines: Lines, shape: Shape) -> None:
        self.lines, self.shape = lines, shape
        self.ragged = self.unclosed = 0

    def __iter__(self) -> Iterator[list[str]]:
        header_due = self.shape.named
        width = len(self.shape.header)
        pending: list[str] = []
        for line in self.lines:
            if pending:
                pending.append(line)
                line = self._joined(pending)
                if not line:
                    continue
            elif not line.strip() or line.lstrip().startswith("#"):
                continue
            if line.count('"') % 2 and self.shape.delimiter and not pending:
                pending = [line]
                continue
            pending = []
            cells = _cut(line, self.shape.delimiter)
            if header_due or cells == self.shape.header:
                header_due = False  # also where a restart wrote the header again
                continue
            self.ragged += len(cells) != width
            yield cells
        if pending:
            self.unclosed += 1
            for line in pending[1:]:
                if line.strip() and '"' not in line:
                    yield _cut(line, self.shape.delimiter)

    def _joined(self, pending: list[str]) -> str:
        """The lines of one quoted cell as one line; empty while the quote is open. It is given up after too much text."""
        if pending[-1].count('"') % 2:
            return " ".join(pending)
        if len(pending) > 200 or sum(map(len, pending)) > MAX_CELL:
            self.unclosed += 1
            pending[:] = []
        return ""


def _blocks(cells: Cells) -> Iterator[list[list[str]]]:
    block: list[list[str]] = []
    for row in cells:
        block.append(row)
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


def _add(rows: Rows, names: list[str], block: list[list[str]], shape: Shape) -> None:
    start, width = rows.count, len(names)
    if any(len(row) != width for row in block):
        block = [row[:width] + [""] * (width - len(row)) for row in block]
    for name, column in zip(names, zip(*block)):
        if any(column):
            rows.add_column(name, start, column, shape.decimal)
    rows.count = start + len(block)


def _one_row_per_run(rows: Rows, shape: Shape) -> bool:
    """A table of finished runs: no counter, and columns that speak of whole runs."""
    roles = [meaning(name).role for name in shape.header]
    if any(r in ("step", "log_step", "epoch", "samples", "tokens") for r in roles):
        return False
    of_runs = {"best", "final", "seed", "run", "model", "name", "experiment", "params", "config", "trial", "dataset", "method"}
    telling = [name for name in shape.header if set(words(name)) & of_runs]
    return len(telling) >= 2 or (len(telling) == 1 and rows.count < 50 and bool(rows.words))
