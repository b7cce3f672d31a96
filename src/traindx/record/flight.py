"""PyTorch's flight recorder: which collectives each rank entered last, read from its dumps and compared between ranks.

A dump is a pickle (or JSON) of plain lists and dictionaries; anything else in it is refused, for dumps are files of unknown
origin. What a rank noted of its own recorder when it stood still has the same form (`tail`).
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.run import Run

FLIGHT = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")  # where torch puts them, up to the number
KEPT = 16  # entries of each rank that are kept
MOST_BYTES = 32 << 20
MOST_INSTRUCTIONS = 3_000_000  # of a pickle: ten times what 2,000 collectives with their frames take
_NAMED = re.compile(r"rank_?(\d{1,6})(\.json|\.pkl|\.pickle)?$")
_TORCH = re.compile(r"[/\\](torch|traindx)[/\\]|^<")
_EQUAL = (
    "all_reduce",
    "allreduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "barrier",
)  # sizes agree between ranks
Entries = list[dict[str, Any]]


_PLAIN = (
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
    "BINUNICODE", "SHORT_BINUNICODE", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "DICT", "LIST", "TUPLE", "TUPLE1", "TUPLE2",
    "TUPLE3", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "MEMOIZE", "BINPUT", "BINGET", "LONG_BINPUT", "LONG_BINGET",
)  # fmt: skip


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a flight recorder's dump")


def _unpickled(data: bytes) -> Any:
    """Plain lists and dictionaries: every instruction is looked at before one is carried out."""
    for count, (kind, argument, _) in enumerate(pickletools.genops(data)):
        if kind.name not in _PLAIN:
            raise ValueError(f"{kind.name} does not belong into a flight recorder's dump")
        if count > MOST_INSTRUCTIONS or (kind.name == "LONG_BINPUT" and (argument or 0) > count):
            raise ValueError("too large for a dump of the flight recorder")
    return _Unpickler(io.BytesIO(data)).load()


def loaded(data: bytes) -> dict[str, Any]:
    """A dump as a dictionary; ValueError when it is none."""
    try:
        found = opening.parsed(data) if data[:1] == b"{" else _unpickled(data)
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError, AttributeError, TypeError, UnicodeDecodeError) as why:
        raise ValueError(f"no dump of the flight recorder: {why}") from None
    if not isinstance(found, dict) or not isinstance(found.get("entries"), list):
        raise ValueError("no dump of the flight recorder: it has no entries")
    return found


def tail(dump: Mapping[str, Any], most: int = KEPT) -> Entries:
    """The last collectives of a dump: group, number, operation, sizes, whether it was completed, and the line that asked."""
    out: Entries = []
    for entry in dump["entries"]:
        if not isinstance(entry, dict) or entry.get("is_p2p"):
            continue
        group, name = entry.get("process_group"), _word(entry.get("profiling_name", ""))
        out.append(
            {
                "group": _word(group[0] if isinstance(group, list | tuple) and group else group),
                "seq": number if isinstance(number := entry.get("collective_seq_id"), int) else 0,
                "op": name.partition(":")[2] or name,
                "sizes": _sizes(entry.get("input_sizes")),
                "done": entry.get("retired") is True or entry.get("state") == "completed",
                "site": _site(entry.get("frames")),
            }
        )
    return sorted(out, key=lambda e: e["seq"])[-most:]


def _word(value: Any) -> str:
    """A name or number as text; anything else is none, for it could be as large as it likes once written out."""
    return str(value)[:200] if isinstance(value, str | int | None) else ""


def _sizes(value: Any) -> list[list[int]] | None:
    """Sizes of tensors, as far as they are that."""
    if not isinstance(value, list | tuple):
        return None
    return [[n for n in one[:16] if isinstance(n, int)] for one in value[:16] if isinstance(one, list | tuple)]


def _site(frames: Any) -> str:
    """file:line of the innermost frame that is the user's."""
    named = [f for f in frames[:1000] if isinstance(f, dict)] if isinstance(frames, list) else []
    for frame in named:
        file = _word(frame.get("filename", ""))
        if file and not _TORCH.search(file):
            return f"{Path(file).name}:{_word(frame.get('line'))}"
    return ""


def beside(run: Path, runs: Mapping[int, Run]) -> tuple[dict[int, Entries], list[str]]:
    """The dumps of a run's ranks, in its folder or where your environment tells torch to put them; and notes on what is none.

    The record names such a place too. It is followed only where your own environment names the same: data names no paths.
    """
    found: dict[int, Entries] = {}
    notes: list[str] = []
    for rank, path in _files(run, runs):
        if rank in found:
            continue
        try:
            found[rank] = tail(loaded(opening.whole(path, MOST_BYTES)))
        except (OSError, ValueError) as why:
            notes.append(f"{path.name}: not read: {why}"[:200])
    return found, notes


def _files(run: Path, runs: Mapping[int, Run]) -> Iterator[tuple[int, Path]]:
    for path in sorted(p for p in run.iterdir() if p.is_file() and not p.is_symlink()):
        if match := _NAMED.search(path.name):
            yield int(match[1]), path
    for rank, own in runs.items():
        prefix, started = own.fact("flight_recorder"), own.fact("started")
        if isinstance(prefix, str) and prefix and prefix in (os.environ.get(v) for v in FLIGHT):
            path = Path(f"{prefix}{rank}")
            fresh = path.is_file() and isinstance(started, int | float) and path.stat().st_mtime >= started
            if fresh:  # not one that an earlier run left there
                yield rank, path


def compared(tails: Mapping[int, Entries]) -> dict[str, Any] | None:
    """The first collective in which the ranks do not meet: other operations or sizes, or some that never came."""
    if len(tails) < 2:
        return None
    for group in dict.fromkeys(e["group"] for entries in tails.values() for e in entries):
        by_rank = {r: {e["seq"]: e for e in entries if e["group"] == group} for r, entries in tails.items()}
        by_rank = {r: own for r, own in by_rank.items() if own}
        if len(by_rank) < 2:
            continue
        begin = max(min(own) for own in by_rank.values())
        for seq in sorted({s for own in by_rank.values() for s in own if s >= begin}):
            if problem := _meeting(seq, {r: own.get(seq) for r, own in by_rank.items()}):
                return {"group": group, "seq": seq, **problem}
    return None


def _meeting(seq: int, there: Mapping[int, Mapping[str, Any] | None]) -> dict[str, Any] | None:
    calls = {r: _call(e) for r, e in there.items() if e is not None}
    missing = sorted(r for r, e in there.items() if e is None)
    came = [e for e in there.values() if e is not None]
    if missing:
        waiting = {str(r): calls[r] for r in sorted(calls) if not (there[r] or {})["done"]}
        return {"kind": "missing", "ranks": missing, "calls": waiting} if waiting else None
    if len({_shape(e) for e in came}) > 1:
        counts = sorted(there, key=lambda r: (_among(_shape(there[r] or {}), came), r))
        return {"kind": "differ", "ranks": [counts[0]], "calls": {str(r): calls[r] for r in sorted(calls)}}
    return None


def _shape(entry: Mapping[str, Any]) -> str:
    op = str(entry.get("op"))
    return f"{op} {entry.get('sizes')}" if op.strip("_").startswith(_EQUAL) else op


def _among(shape: str, came: Iterable[Mapping[str, Any]]) -> int:
    return sum(_shape(e) == shape for e in came)


def _call(entry: Mapping[str, Any]) -> str:
    sizes = entry.get("sizes")
    size = "×".join(map(str, sizes[0])) if isinstance(sizes, Sequence) and sizes and isinstance(sizes[0], list) else ""
    site = entry.get("site")
    return f"{entry.get('op')}{f' of {size}' if size else ''}{f' at {site}' if site else ''}"
