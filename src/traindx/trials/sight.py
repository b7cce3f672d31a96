"""What a person should look at before the long run: a few batches of each kind, and every module's shapes and sizes."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traindx.trials.state import random_kept
from traindx.trials.task import Batch, Task, evaluating, split, tensors, to_device

BATCHES, SAMPLES, CELLS, SIDE = 5, 8, 8, 64  # of each kind: batches, samples of a batch, numbers of a sample, pixels a side
MOST_MODULES = 200


def module_table(task: Task) -> list[dict[str, Any]]:
    """A row per module in forward order: class, shapes in and out, dtype, device, RMS of the output, parameters."""
    rows: list[dict[str, Any]] = []
    [batch] = task.batches(1)
    with task.twin() as twin, evaluating(twin.model), _reading(twin.model, rows):
        twin.loss(batch)
    return rows[:MOST_MODULES]


@contextmanager
def _reading(model: nn.Module, rows: list[dict[str, Any]]) -> Iterator[None]:
    names = {m: n or "(model)" for n, m in model.named_modules()}

    def read(module: nn.Module, args: Any, output: Any) -> None:
        out = next(iter(tensors(output)), None)
        if module not in names or out is None:
            return
        rms = float(out.detach().float().square().mean().sqrt()) if out.numel() and not out.is_complex() else None
        rows.append(
            {
                "name": names.pop(module),
                "class": type(module).__name__,
                "in": [list(t.shape) for t in tensors(args)][:3],
                "out": list(out.shape),
                "dtype": str(out.dtype).removeprefix("torch."),
                "device": str(out.device),
                "rms": rms,
                "parameters": sum(p.numel() for p in module.parameters(recurse=False)),
            }
        )

    handles = [m.register_forward_hook(read) for m in names]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def contact_sheet(task: Task) -> dict[str, list[dict[str, Any]]]:
    """Five batches of training and of validation data as small pictures, numbers and targets; nothing is stored."""
    return {which: [_look(task, b) for b in _drawn(task, which)] for which in ("train", "val")}


def _drawn(task: Task, which: str) -> list[Batch]:
    """Random batches: of the ones a fresh pass brings, five that are spread over it."""
    have = task.batches(40, which)
    with random_kept(seed=1):
        order = sorted(torch.randperm(len(have)).tolist()[:BATCHES])
    return [have[i] for i in order]


def _look(task: Task, batch: Batch) -> dict[str, Any]:
    inputs, target = split(to_device(batch, "cpu"))
    first = next((t for t in tensors(inputs) if t.ndim), None)
    shown: dict[str, Any] = {"inputs": [_about(t) for t in tensors(inputs)][:4], "targets": _targets(target)}
    if first is None:
        return shown
    images = _images(first[:SAMPLES])
    if images is not None:
        return {**shown, "kind": "image", "png": [base64.b64encode(png(i)).decode() for i in images]}
    rows = first[:SAMPLES].detach().reshape(min(len(first), SAMPLES), -1)[:, :CELLS].tolist()
    return {**shown, "kind": "numbers" if first.is_floating_point() else "ids", "rows": rows}


def _about(t: Tensor) -> dict[str, Any]:
    about: dict[str, Any] = {"shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")}
    if t.numel() and not t.is_complex():
        x = t.detach().double()
        about |= {"min": float(x.min()), "max": float(x.max()), "mean": float(x.mean())}
    return about


def _targets(target: Any) -> list[Any]:
    found = tensors(target)
    if not found or not found[0].ndim:
        return []
    rows = found[0][:SAMPLES].detach().reshape(min(len(found[0]), SAMPLES), -1)[:, :CELLS]
    return [r[0] if len(r) == 1 else r for r in rows.tolist()]


def _images(t: Tensor) -> np.ndarray | None:
    """Samples as pictures (N, H, W) or (N, H, W, 3) of bytes, when they look like images; None otherwise."""
    x = t.detach().float().numpy() if t.is_floating_point() or t.dtype == torch.uint8 else None
    if x is None:
        return None
    if x.ndim == 4 and x.shape[1] in (1, 3):
        x = np.moveaxis(x, 1, -1)
    elif x.ndim == 2 and (side := round(x.shape[1] ** 0.5)) ** 2 == x.shape[1] and side >= 8:
        x = x.reshape(len(x), side, side, 1)
    elif not (x.ndim == 3 and min(x.shape[1:]) >= 8) and not (x.ndim == 4 and x.shape[-1] in (1, 3)):
        return None
    x = x[..., None] if x.ndim == 3 else x
    step = max(1, -(-max(x.shape[1:3]) // SIDE))
    x = np.nan_to_num(x[:, ::step, ::step])
    low, high = float(x.min()), float(x.max())
    shades: np.ndarray = (np.clip((x - low) / max(high - low, 1e-12), 0, 1) * 255).astype(np.uint8)
    return shades[..., 0] if shades.shape[-1] == 1 else shades


def png(pixels: np.ndarray) -> bytes:
    """Bytes of a PNG file from (H, W) grey or (H, W, 3) colour bytes."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    raw = b"".join(b"\x00" + row.tobytes() for row in np.ascontiguousarray(pixels))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
