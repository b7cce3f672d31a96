"""Mutations that keep a format's outer shape: frames are signed again, JSON stays JSON, databases stay databases."""

# ruff: noqa: E501 - rows of a table are easier to compare when they are not broken

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.importers import writers

from traindx.record.format import PROLOGUE, frame, prologue, scan

Files = dict[str, bytes]

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf"), -float("inf"),
    "", "x", "nan", "1e999", "\x00", "\x1b[31m", "../../etc/passwd", "a" * 5000, "\ud800", "١٢", "=1+1", [], {}, [None], [[]], [[1, "x", None]],
    {"": ""}, {"a": {"b": {}}}, [1] * 300, ["loss/train"], {"step": 1, "loss": "x"}, [[[[[[]]]]]], {"loss/train": [1, 2]}, [1, [2, [3]]], "1" * 5000,
]  # fmt: skip
WORDS = [
    b"", b"nan", b"inf", b"-inf", b"1e999", b"-0", b"0x1p3", b"1_000", b"9" * 400, b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"\r", b"\n\n", b"\x85",
    "\u2028".encode(), b'"', b"'", b",", b";", b"\t", b"|", b"{", b"}", b"[", b"]", b"[" * 3000, b"{\"a\":" * 3000, b"step", b"epoch", b"loss", b"val_loss",
    b"lr", b"train", b"100%", b"1/10", b"\x1b[31m", b"=", b":", b"\\", b"%s", b"#", b"<", b"null", b"true", b"1e-3", b"1,5", b"2026-01-01 00:00:00",
    b"Traceback (most recent call last):\n", b"a" * 3000, b"\xf0\x9f\x92\xa9", "\u202e".encode(), b"http://[", b"..", b"/", b"?", b"&", b"\x80\x02", b"$",
]  # fmt: skip


def mutated(files: Files, pool: list[Files], rng: random.Random) -> Files:
    """The folder with one to four changes."""
    out = dict(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        name = rng.choice(sorted(out))
        if rng.random() < 0.03 and len(out) > 1:
            del out[name]
            continue
        other = rng.choice(pool).get(name, b"")
        out[name] = _shaped(name, out[name], other, rng)
    return _signed(out)


def _shaped(name: str, data: bytes, other: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.15:
        return _bytes(data, other, rng)
    for fits, change in SHAPES:
        if fits(name, data):
            try:
                return change(data, other, rng)
            except (ValueError, KeyError, IndexError, struct.error, sqlite3.Error, RecursionError, OverflowError):
                break
    return _text(data, other, rng) if data.isascii() and data else _bytes(data, other, rng)


# -- shapes


def _bytes(data: bytes, other: bytes, rng: random.Random) -> bytes:
    at, end = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    at, end = min(at, end), max(at, end)
    kind = rng.randrange(7)
    if kind == 0 and data:
        at = min(at, len(data) - 1)
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
    if kind == 2:
        return data[:at] + data[min(end, at + 64) :]
    if kind == 3:
        return data[:end] + data[at : at + 400] + data[end:]
    if kind == 4:
        return data[:at] + other[rng.randrange(len(other) + 1) :]
    if kind == 5:
        number = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
        packed = number.to_bytes(8, rng.choice(("little", "big")))[: rng.choice((1, 2, 4, 8))]
        return data[:at] + packed + data[at + len(packed) :]
    return data[:at] + rng.choice(WORDS) + data[at:]


def _text(data: bytes, other: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return rng.choice(WORDS)
    at = rng.randrange(len(lines))
    kind = rng.randrange(8)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, rng.choice(lines))
    elif kind == 2:
        lines.insert(at, rng.choice(other.splitlines(keepends=True) or [b"\n"]))
    elif kind == 3:
        lines[at:] = lines[at:] * rng.randrange(2, 5)
    elif kind == 4:
        rng.shuffle(lines)
    else:  # one word of a line
        line = lines[at]
        spots = [i for i, c in enumerate(line) if not chr(c).isalnum()] or [0]
        begin = rng.choice(spots)
        end = next((i for i in spots if i > begin), len(line))
        number = str(rng.choice((rng.uniform(-10, 10), rng.randrange(-5, 10**6), 10.0 ** rng.randrange(-300, 300)))).encode()
        lines[at] = line[: begin + 1] + rng.choice((number, rng.choice(WORDS), b"")) + line[end:]
    return b"".join(lines)


def confused(value: Any, rng: random.Random, depth: int = 0) -> Any:
    """The value with one part of it replaced by something of another kind, or left out, or doubled."""
    if (depth and rng.random() < 0.25) or not isinstance(value, dict | list) or not value:
        return rng.choice(ODD)
    if isinstance(value, dict):
        out = dict(value)
        key = rng.choice(list(out))
        kind = rng.random()
        if kind < 0.1:
            del out[key]
        elif kind < 0.2:
            out[str(rng.choice((*ODD, *out)))] = out[key]
        else:
            out[key] = confused(out[key], rng, depth + 1)
        return out
    at = rng.randrange(len(value))
    kind = rng.random()
    if kind < 0.1:
        return value[:at] + value[at + 1 :]
    if kind < 0.2:
        return value[:at] + [value[at]] * rng.randrange(2, 40) + value[at:]
    return [*value[:at], confused(value[at], rng, depth + 1), *value[at + 1 :]]


def _json(data: bytes, other: bytes, rng: random.Random) -> bytes:
    return json.dumps(confused(json.loads(data), rng)).encode("utf-8", "surrogatepass")


def _json_lines(data: bytes, other: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return _text(data, other, rng)
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    lines[at] = _json(lines[at], b"", rng) + b"\n"
    return b"".join(lines)


def _segment(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A segment of a record: frames are changed and signed again."""
    frames = [[f.kind, f.stream, f.seq, bytes(f.payload)] for f in scan(data)[0]]
    at, kind = rng.randrange(len(frames)), rng.randrange(8)
    if kind == 0:
        frames.insert(at, list(rng.choice(frames)))
    elif kind == 1:
        del frames[at]
    elif kind == 2:
        frames[at][rng.randrange(3)] = rng.choice((0, 1, 2, 9, 10, 11, 255, frames[at][2] + 1))
    elif kind == 3:
        rng.shuffle(frames)
    else:
        payload = frames[at][3]
        frames[at][3] = _json(payload, b"", rng) if payload[:1] in b"{[" else _bytes(payload, b"", rng)
    return data[: PROLOGUE.size] + b"".join(frame(k & 255, s & 0xFFFFFFFF, n & (2**64 - 1), p) for k, s, n, p in frames)


def _tfrecords(data: bytes, other: bytes, rng: random.Random) -> bytes:
    found, at = [], 0
    while at + 12 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 12 : at + 12 + size])
        at += size + 16
    at = rng.randrange(len(found))
    found[at] = _bytes(found[at], rng.choice(found), rng)
    return b"".join(writers.framed(one) for one in found)


def _leveldb(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """W&B's binary log: chunks with a checksum each."""
    chunks, at = [], 7
    while at + 7 <= len(data):
        size, kind = struct.unpack_from("<HB", data, at + 4)
        chunks.append([kind, data[at + 7 : at + 7 + size]])
        at += 7 + size
    at = rng.randrange(len(chunks))
    chunks[at][1] = _bytes(chunks[at][1], rng.choice(chunks)[1], rng)[:0xFFFF]
    return data[:7] + b"".join(
        struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part for kind, part in chunks
    )


def _database(data: bytes, other: bytes, rng: random.Random) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        file.write(data)
        file.flush()
        link = sqlite3.connect(file.name)
        try:
            table = rng.choice([row[0] for row in link.execute("SELECT name FROM sqlite_master WHERE type = 'table'")])
            column = rng.choice([row[1] for row in link.execute(f'PRAGMA table_info("{table}")')])
            value = rng.choice([v for v in ODD if isinstance(v, str | float | None) and v != "\ud800"] + [b"\xff", 2**62, -1])
            what = rng.random()
            if what < 0.1:
                link.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO odd')
            elif what < 0.15:
                link.execute(f'DELETE FROM "{table}"')
            else:
                link.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE random() % ? = 0', (value, rng.choice((1, 2, 10))))
            link.commit()
        finally:
            link.close()
        return Path(file.name).read_bytes()


SHAPES: list[tuple[Callable[[str, bytes], bool], Callable[[bytes, bytes, random.Random], bytes]]] = [
    (lambda name, data: data.startswith(prologue()[:8]), _segment),
    (lambda name, data: data.startswith(b"SQLite format 3"), _database),
    (lambda name, data: "tfevents" in name, _tfrecords),
    (lambda name, data: name.endswith(".wandb"), _leveldb),
    (lambda name, data: data[:1] in (b"{", b"[") and data.count(b"\n") < 2, _json),
    (lambda name, data: data[:1] in (b"{", b"["), lambda d, o, r: _json(d, o, r) if _is_json(d) else _json_lines(d, o, r)),
]


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _signed(files: Files) -> Files:
    """A capsule is signed by what it holds: forged ones are signed, too."""
    manifest = files.get("capsule.json")
    if manifest is None:
        return files
    try:
        told = json.loads(manifest)
        for name, said in told["files"].items():
            if name in files:
                said.update(bytes=len(files[name]), sha256=hashlib.sha256(files[name]).hexdigest())
        told.pop("sha256", None)
        told["sha256"] = hashlib.sha256(json.dumps(told, sort_keys=True, allow_nan=False).encode()).hexdigest()
        return {**files, "capsule.json": json.dumps(told).encode()}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return files
