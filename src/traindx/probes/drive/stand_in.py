"""How a wrapper stands in for a function of torch without taking its place in the eyes of the script.

A script holds torch's functions as values: `self.act = F.silu`, `if act is torch.tanh`, `GAIN[torch.relu]`. It saves a model
that holds one, and puts back later what it found. So a function written in Python stays the object that it is, and only its
code changes for a while. A compiled one cannot: its wrapper is equal to it, is pickled and copied as it, and does not stand
where the model or its file holds the function.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from traindx.probes.read.common.tracebacks import UNSEEN

_IN_PYTHON = ("torch.nn.functional", "torch.functional")
MOST_PARTS = 10_000  # modules of a model that are looked through


def _leads(*args: Any, **kwargs: Any) -> Any:
    try:
        return "wrapper".call(*args, **kwargs)  # type: ignore[attr-defined]
    except BaseException as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        raise


class _Wrapper:
    """What stands in a function's code where `_leads` says "wrapper"."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


class InCode:
    """A wrapper in the code of a function, which remains the object that everybody holds."""

    def __init__(self, function: FunctionType, wrapper: Callable[..., Any]) -> None:
        self._function = function
        constants = tuple(_Wrapper(wrapper) if c == "wrapper" else c for c in _leads.__code__.co_consts)
        self._code = _leads.__code__.replace(co_consts=constants, co_filename=UNSEEN, co_name=function.__name__)
        self._stood: CodeType | None = None
        self._told = False

    @property
    def put(self) -> bool:
        return self._stood is not None

    def on(self) -> FunctionType:
        """Put it there; gives what stood there."""
        before = twin(self._function)
        self._stood, self._function.__code__ = self._function.__code__, self._code
        self._told = "__wrapped__" not in vars(self._function)
        if self._told:
            self._function.__wrapped__ = before  # type: ignore[attr-defined]  # whose signature and source are the right ones
        return before

    def off(self) -> None:
        if self._stood is None or self._function.__code__ is not self._code:
            return  # another one stands above it
        self._function.__code__, self._stood = self._stood, None
        if self._told:
            del self._function.__wrapped__  # type: ignore[attr-defined]


def twin(function: FunctionType) -> FunctionType:
    """A second function of the same code."""
    out = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    for name in ("__kwdefaults__", "__module__", "__qualname__", "__annotations__"):
        setattr(out, name, getattr(function, name))
    return out


def in_python(thing: Any) -> bool:
    """Whether it is a function of torch's that a wrapper can stand in the code of."""
    return isinstance(thing, FunctionType) and thing.__module__ in _IN_PYTHON and thing.__closure__ is None


class Compiled(partial[Any]):
    """The wrapper of a builtin: as an attribute of a class that is no method, and must not become one."""

    __wrapped__: Any

    def __eq__(self, other: object) -> bool:
        return bool(getattr(other, "__wrapped__", other) == self.__wrapped__)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __reduce__(self) -> Any:
        return copy.copy, (self.__wrapped__,)  # a copy of a function is the function

    def __copy__(self) -> Any:
        return self.__wrapped__

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__wrapped__


def held_by(modules: Iterable[Any]) -> Iterator[int]:
    """Which builtins the modules of a model and the files of their classes hold as values, by place in memory."""
    files: dict[str, None] = {}
    for module in islice(modules, MOST_PARTS):
        if type(name := type(module).__module__) is str:
            files.setdefault(name)
        yield from _builtins(object.__getattribute__(module, "__dict__"))
    for name in files:
        file = sys.modules.get(name)
        if name.partition(".")[0] != "torch" and type(file) is ModuleType:
            yield from _builtins(vars(file))


def _builtins(space: dict[str, Any]) -> Iterator[int]:
    """Those among the values, and among what lists, dictionaries and the like among these hold."""
    for value in list(space.values()):
        kind = type(value)
        inner: Iterable[Any] = (value,)
        if kind is dict:
            inner = (*value, *value.values())
        elif kind in (list, tuple, set, frozenset):
            inner = tuple(value)
        elif kind is partial:
            inner = (value.func,)
        yield from (id(one) for one in inner if type(one) is BuiltinFunctionType)
