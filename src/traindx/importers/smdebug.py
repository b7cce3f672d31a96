"""SageMaker Debugger's output folders: one small event file per saved step and worker under events/, collections next to them.

Tensors of several numbers count by their mean; the mode (train, eval) stands in the metadata. The index files, which name
paths, are not read.
"""

from __future__ import annotations

import os
from pathlib import Path

from traindx.errors import NothingReadable
from traindx.importers import jsonlog, tensorboard
from traindx.importers.events import Decoded
from traindx.importers.protobuf import Malformed, fields
from traindx.importers.source import MEGABYTE, Source
from traindx.importers.table import Log

MOST_FILES = 200_000
_MODES = {b"1": b"train/", b"2": b"eval/"}


def is_run(files: set[str], folders: set[str]) -> bool:
    """Whether a folder with these entries is such an output: events/ next to collections/ or index/."""
    return "events" in folders and bool(folders & {"collections", "index"})


def read_folder(folder: Path) -> list[Log]:
    """The scalars and losses of a debugger's output, of the first worker that saved any."""
    files = _files(folder / "events")
    if not files:
        raise NothingReadable(f"{folder}: a SageMaker Debugger folder without event files")
    workers: dict[str, list[Path]] = {}
    for path in files:
        workers.setdefault(_worker(path), []).append(path)
    chosen = sorted(workers)[0]
    losses = _losses(folder)
    decoded = Decoded(rename=lambda tag, meta: _named(tag, meta, losses), arrays=True)
    log = tensorboard.read_many([Source.of(p) for p in workers[chosen]], str(folder), decoded)
    log.kind = "smdebug"
    log.tracks = {n: t for n, t in log.tracks.items() if len(t) > 1} or log.tracks
    if len(workers) > 1:
        log.notes.append(f"{len(workers)} workers saved tensors; those of {chosen} were taken")
    return [log]


def _files(base: Path) -> list[Path]:
    out: list[Path] = []
    with os.scandir(base) as steps:
        for step in sorted((s for s in steps if s.is_dir(follow_symlinks=False)), key=lambda s: s.name):
            with os.scandir(step.path) as entries:
                out += [Path(e.path) for e in entries if e.name.endswith(".tfevents") and e.is_file(follow_symlinks=False)]
            if len(out) >= MOST_FILES:
                break
    return out


def _worker(path: Path) -> str:
    return path.stem.partition("_")[2] or "worker_0"


def _losses(folder: Path) -> set[bytes]:
    """Names of the tensors that the collection "losses" lists."""
    out: set[bytes] = set()
    base = folder / "collections"
    if not base.is_dir() or base.is_symlink():
        return out
    for path in sorted(base.glob("*/*.json"))[:20]:
        if path.is_symlink():
            continue
        found = jsonlog.loads(Source.of(path).whole(4 * MEGABYTE).decode("utf-8", "replace"))
        collections = found.get("collections") if isinstance(found, dict) else None
        named = collections.get("losses") if isinstance(collections, dict) else None
        tensors = named.get("tensor_names") if isinstance(named, dict) else None
        out |= {str(t).encode() for t in tensors if isinstance(t, str)} if isinstance(tensors, list) else set()
    return out


def _named(tag: bytes, meta: bytes, losses: set[bytes]) -> bytes:
    """The tag with its mode before it, and "loss" in it when it is one."""
    mode = b""
    try:
        for number, kind, value in fields(meta):
            if number == 1 and kind == 2 and isinstance(value, bytes):
                parts = {n: v for n, _, v in fields(value)}
                if parts.get(1) == b"mode":
                    content = parts.get(2, b"")
                    mode = _MODES.get(content if isinstance(content, bytes) else b"", b"")
    except Malformed:
        mode = b""
    if tag in losses and len(losses) == 1:
        return mode + b"loss"
    return mode + (b"loss/" + tag if tag in losses and b"loss" not in tag.lower() else tag)
