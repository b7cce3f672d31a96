"""Capsules: the state of a run at the moment it broke, in safetensors and JSON with hashes. Whole or absent, never wrong.

A capsule is a directory: `capsule.json` (what there is, versions, hashes, the last steps' numbers), `state.safetensors`
(weights, buffers, optimizers, schedules, scaler, random states) and, only when it was asked for, `batch.safetensors`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from traindx import opening
from traindx.errors import NothingReadable, TraindxError
from traindx.forensics.nest import pack, unpack

SCHEMA = "traindx.capsule/2"
UNCHECKED = "traindx.capsule/1"  # of 0.1: its manifest carries no checksum of itself; two bits away from 2
PARTS = ("state", "batch")
MANIFEST = "capsule.json"
KEEP, MOST_BYTES, SPARE_BYTES = 3, 512 << 20, 64 << 20
MOST_JSON = 32 << 20  # of a manifest or a header we are willing to read


class NotSaved(TraindxError):
    """Why no capsule was written."""


@dataclass
class Capsule:
    """What a capsule holds."""

    step: int
    state: dict[str, Any]  # models, optimizers, schedulers, scalers: lists of state dicts; random: states; modes
    batch: Any = None
    about: dict[str, Any] = field(default_factory=dict)  # plain JSON: versions, origin, autocast …
    signals: list[Any] = field(default_factory=list)  # [step, {signal: value}], the last ones


def save(capsule: Capsule, folder: Path, *, keep: int = KEEP, most_bytes: int = MOST_BYTES) -> Path:
    """Write the capsule into `folder` and drop the oldest beyond `keep`; gives its path. Raises NotSaved when it must not be."""
    trees: dict[str, Any] = {}
    tables: dict[str, dict[str, torch.Tensor]] = {}
    for part in PARTS:
        value = getattr(capsule, part)
        if part == "batch" and value is None:
            continue
        tables[part] = {}
        trees[part] = pack(value, tables[part], part)
    size = sum(t.numel() * t.element_size() for table in tables.values() for t in table.values())
    if size > most_bytes:
        raise NotSaved(f"the state takes {size / 1e6:.0f} MB, more than the {most_bytes / 1e6:.0f} MB a capsule may take")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if shutil.disk_usage(folder).free < size + SPARE_BYTES:
        raise NotSaved(f"there is not enough room for {size / 1e6:.0f} MB")
    made = folder / f".part-{os.getpid()}-{time.monotonic_ns()}"
    made.mkdir(mode=0o700)
    try:
        _write(made, capsule, trees, tables)
        final = _name(folder, capsule.step)
        made.rename(final)
        _sync(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    for old in sorted(p for p in folder.glob("capsule-*") if p.is_dir())[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def _name(folder: Path, step: int) -> Path:
    for again in range(1000):
        path = folder / f"capsule-{step:09d}-{again:03d}"
        if not path.exists():
            return path
    raise NotSaved("there are a thousand capsules of this step already")


def _write(made: Path, capsule: Capsule, trees: Mapping[str, Any], tables: Mapping[str, dict[str, torch.Tensor]]) -> None:
    try:
        from safetensors.torch import save_file
    except ModuleNotFoundError:  # in an environment that is not ours
        raise NotSaved("safetensors is not installed there") from None
    files = {}
    for part, table in tables.items():
        path = made / f"{part}.safetensors"
        save_file(table, path)
        path.chmod(opening.PRIVATE)
        _sync(path)
        files[path.name] = {"sha256": _hash(path), "bytes": path.stat().st_size}
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "step": capsule.step,
        "files": files,
        "trees": trees,
        "about": {**versions(), **capsule.about},
        "signals": capsule.signals[-200:],
    }
    manifest = _plain(manifest)
    manifest["sha256"] = _digest(manifest)
    with os.fdopen(opening.private(made / MANIFEST, os.O_WRONLY | os.O_EXCL), "wb") as file:
        file.write(json.dumps(manifest, allow_nan=False).encode())
        file.flush()
        os.fsync(file.fileno())
    _sync(made)


def versions() -> dict[str, str]:
    """The versions that decide what numbers come out."""
    return {"python": platform.python_version(), "torch": str(torch.__version__), "numpy": np.__version__}


def load(path: Path) -> Capsule:
    """Read a capsule; everything in it is checked before it is believed. Nothing in it names a path that is followed."""
    manifest = _manifest(path)
    files, trees = manifest.get("files"), manifest.get("trees")
    if not isinstance(files, dict) or not isinstance(trees, dict) or not isinstance(manifest.get("step"), int):
        raise NothingReadable(f"{path}: not a capsule")
    if set(files) - {f"{part}.safetensors" for part in PARTS} or "state.safetensors" not in files:
        raise NothingReadable(f"{path}: names files that a capsule does not have")
    parts: dict[str, Any] = {}
    for name, said in files.items():
        part = name.removesuffix(".safetensors")
        table = _table(path / name, said if isinstance(said, dict) else {})
        parts[part] = unpack(trees.get(part), table)
    about, signals = manifest.get("about"), manifest.get("signals")
    if not isinstance(parts["state"], dict):
        raise NothingReadable(f"{path}: not a capsule")
    return Capsule(
        manifest["step"],
        parts["state"],
        parts.get("batch"),
        about if isinstance(about, dict) else {},
        signals if isinstance(signals, list) else [],
    )


def _manifest(path: Path) -> dict[str, Any]:
    try:
        found = opening.parsed(opening.whole(_regular(path / MANIFEST), MOST_JSON))
    except (OSError, ValueError) as why:
        raise NothingReadable(f"{path}: the manifest cannot be read: {why}"[:300]) from None
    if not isinstance(found, dict) or found.get("schema") not in (SCHEMA, UNCHECKED):
        raise NothingReadable(f"{path}: not a capsule of this version ({SCHEMA})")
    if found["schema"] == UNCHECKED and "sha256" not in found:
        return found
    said = found.pop("sha256", None)
    try:
        own = _digest(found)
    except ValueError:  # it holds NaN, which none of ours does
        own = ""
    if said != own:
        raise NothingReadable(f"{path}: its manifest was changed after it was written, or is damaged")
    return found


def _digest(manifest: Mapping[str, Any]) -> str:
    """Of all that a manifest says, in an order of its own."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _table(path: Path, said: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    size = said.get("bytes")
    if not isinstance(size, int) or _regular(path).stat().st_size != size:
        raise NothingReadable(f"{path}: not the size its manifest says")
    with opening.opened(path) as file:
        header = int.from_bytes(file.read(8), "little")
    if header > min(size - 8, MOST_JSON):
        raise NothingReadable(f"{path}: its header says it is {header} bytes long")
    if _hash(path) != said.get("sha256"):
        raise NothingReadable(f"{path}: not the content its manifest says; somebody changed it, or it is damaged")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        table: dict[str, torch.Tensor] = load_file(path)
    except (SafetensorError, ValueError, RuntimeError, OSError) as why:
        raise NothingReadable(f"{path}: {why}"[:300]) from None
    return table


def _regular(path: Path) -> Path:
    """The path, if it is a plain file (no link, pipe or device)."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise NothingReadable(f"{path}: no such file; a capsule is the folder named when a run turned non-finite") from None
    except (OSError, ValueError) as why:
        raise NothingReadable(f"{path}: {why}") from None
    if not stat.S_ISREG(found.st_mode) or path.parent.is_symlink():
        raise NothingReadable(f"{path}: not a plain file")
    return path


def _hash(path: Path) -> str:
    with opening.opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
