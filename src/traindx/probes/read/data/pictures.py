"""A batch as a person would look at it: small pictures, a few numbers, the targets next to them."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

SAMPLES, CELLS, SIDE = 8, 8, 64  # samples of a batch, numbers of a sample, pixels a side


def look(inputs: Sequence[Tensor], target: Tensor | None) -> dict[str, Any]:
    """A few samples of a batch in host memory: {inputs: shapes and ranges, targets, kind, png | rows}."""
    first = next((t for t in inputs if t.ndim), None)
    shown: dict[str, Any] = {"inputs": [_about(t) for t in inputs][:4], "targets": targets(target)}
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


def targets(target: Tensor | None) -> list[Any]:
    """The targets of these few samples."""
    if target is None or not target.ndim:
        return []
    rows = target[:SAMPLES].detach().reshape(min(len(target), SAMPLES), -1)[:, :CELLS]
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
