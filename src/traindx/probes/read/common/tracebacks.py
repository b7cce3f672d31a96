"""Tracebacks as plain python shows them."""

from __future__ import annotations

import sys
import types
from pathlib import Path

# `warnings.warn(stacklevel=2)` does not count frames whose file looks like the import system's: with such a file name on our
# wrappers a warning still points to the user's line.
UNSEEN = "<traindx: importlib._bootstrap>"
_HERE = (str(Path(__file__).parents[3]), UNSEEN)
_KNOWN = sys.stdlib_module_names | {"builtins", "traindx", "torch", "numpy", "psutil", "safetensors"}


def thrown_in(error: BaseException) -> bool:
    """Whether an error came over us, and not from us: timeouts and preemption work like that.

    A signal handler raised it, which is called with the frame it interrupts: the one below its own. Or another thread threw
    it: it is of a type that nothing we call raises, and arose in a line of ours or torch's.
    """
    tb, last = error.__traceback__, None
    while tb is not None:
        last = tb.tb_frame
        if not last.f_code.co_filename.startswith(_HERE) and _interrupts(last):
            return True
        tb = tb.tb_next
    if last is None or not last.f_code.co_filename.startswith((*_HERE, str(Path(sys.modules["torch"].__file__ or "").parent))):
        return False
    strange = type(error).__module__.partition(".")[0] not in _KNOWN
    return strange or (isinstance(error, TimeoutError) and error.errno is None)


def _interrupts(frame: types.FrameType) -> bool:
    below = frame.f_back
    return below is not None and any(
        v is below or (isinstance(v, tuple) and any(one is below for one in v)) for v in frame.f_locals.values()
    )
