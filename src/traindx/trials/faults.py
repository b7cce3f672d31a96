"""Device, dtype and shape errors told as a person would: what happened, and on which line of yours."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

import torch

_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]), sysconfig.get_paths()["stdlib"])
_HINTS = (
    ("mat1 and mat2 shapes cannot be multiplied", "a layer's input size does not fit what comes before it"),
    ("expected scalar type", "dtypes do not fit: class targets are int64, inputs float32"),
    ("Expected all tensors to be on the same device", "model and batch live on different devices"),
    ("size of tensor", "two shapes that should be equal are not"),
    ("out of range", "a class id or token id is beyond the table"),
    ("Expected floating point type for target", "this loss wants float targets"),
    ("only batches of spatial targets", "the target's shape does not fit the logits"),
)


def located(error: BaseException) -> str:
    """The error with a plain hint and the innermost line of the user's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not f.filename.startswith(_LIBRARIES) and "site-packages" not in f.filename]
    where = f" ({users[-1].filename}:{users[-1].lineno}: {users[-1].line})" if users else ""
    text = str(error).splitlines()[0] if str(error) else ""
    hint = next((f": {words}" for key, words in _HINTS if key in str(error)), "")
    return f"{type(error).__name__}: {text}{hint}{where}"
