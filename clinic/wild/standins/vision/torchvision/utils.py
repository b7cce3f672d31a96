"""Pictures that nobody looks at: they are laid out and written as empty files."""

from pathlib import Path

import torch


def make_grid(tensor, *_, **__):
    parts = list(tensor) if isinstance(tensor, (list, tuple)) else list(tensor.detach())
    return torch.cat([p[0] if p.dim() == 4 else p for p in parts], dim=-1)


def save_image(tensor, fp, *_, **__):
    Path(fp).parent.mkdir(parents=True, exist_ok=True)
    Path(fp).write_bytes(b"")
