"""Device, dtype and shape errors in plain words: what happened, and on which line of yours."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

import torch
from torch import nn

_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]), sysconfig.get_paths()["stdlib"])
_HINTS = (
    ("mat1 and mat2 shapes cannot be multiplied", "a layer's input size does not fit what comes before it"),
    ("expected scalar type", "dtypes do not fit: class targets are int64, inputs float32"),
    ("must have the same dtype", "dtypes do not fit: model and batch, or two parts of the model, differ in precision"),
    ("Expected tensor for argument #1 'indices' to have one of the following scalar types", "an embedding wants int64 ids"),
    ("Expected all tensors to be on the same device", "model and batch live on different devices"),
    ("size of tensor", "two shapes that should be equal are not"),
    ("is not on the expected device", "parts of the model, or model and batch, live on different devices"),
    ("is out of bounds", "a class label is beyond the number of the model's outputs"),
    ("out of range", "a class id or token id is beyond the table"),
    ("Expected floating point type for target", "this loss wants float targets"),
    ("expected target dtype", "class targets are int64; probabilities have the shape of the output"),
    ("must be the same as input size", "output and target differ in shape; class numbers go with CrossEntropyLoss"),
    ("only batches of spatial targets", "the target's shape does not fit the logits"),
)


def located(error: BaseException) -> str:
    """The error with a plain hint, the innermost module, and the innermost line of the user's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not f.filename.startswith(_LIBRARIES) and "site-packages" not in f.filename]
    where = f" ({users[-1].filename}:{users[-1].lineno}: {users[-1].line})" if users else ""
    text = str(error).splitlines()[0].rstrip(".!") if str(error) else ""
    hint = next((f": {words}" for key, words in _HINTS if key in str(error)), "")
    return f"{type(error).__name__}: {text}{hint}{_module(error)}{where}"


def _module(error: BaseException) -> str:
    """The innermost module that was being called, by its name in the outermost one."""
    called = []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            called.append(owner)
    if not called:
        return ""
    name = next((n for n, m in called[0].named_modules() if m is called[-1]), "")
    kind = type(called[-1]).__name__
    return f", in {name} ({kind})" if name else f", in {kind}"
