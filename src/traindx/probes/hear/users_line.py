"""A call made in the name of the user's line: what torch warns about in it points where it points without us.

A warning raised in C takes file, line, module and the book of warnings already shown from the Python frame that made the call,
and that frame would be a wrapper of ours. So the call goes through one more frame, which carries the user's names for all four.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from traindx.probes.read.common.tracebacks import UNSEEN

Call = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
MOST = 4096  # lines remembered
_CODE = (lambda func, args, kwargs: func(*args, **kwargs)).__code__
_calls: dict[tuple[CodeType, int, int], Call] = {}


def calls_as(frame: FrameType) -> Call:
    """A function `call(func, args, kwargs)` whose frame looks like `frame` to the warnings module."""
    while frame.f_code.co_filename == UNSEEN and frame.f_back is not None:
        frame = frame.f_back
    key = (frame.f_code, frame.f_lineno, id(frame.f_globals))
    call = _calls.get(key)
    if call is None:
        if len(_calls) >= MOST:
            _calls.clear()
        code = _CODE.replace(co_filename=key[0].co_filename, co_name=key[0].co_name, co_firstlineno=key[1])
        call = _calls[key] = FunctionType(code, frame.f_globals)
    return call
