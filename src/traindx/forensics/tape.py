"""The tape: the torch calls that a script makes between its model and `backward()`, heard one by one on steps that are looked at.

On such a step wrappers stand in the place of torch's functions and of a tensor's methods and operators: of all of them until
the calls of the loss are known, then of those few. They call the original with the same arguments and give back the same
object. No mode is on, so torch takes the ways it takes without us, and modes and wrappers of the script's own are entered as
often as ever. They stand before the model is called, for `torch.log(model(x))` looks `log` up first.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, FrameType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import get_overridable_functions

from traindx import innards
from traindx.probes.drive.patches import HELD, PATCHES, disguise, unbound
from traindx.probes.drive.stand_in import InCode, in_python
from traindx.probes.hear.users_line import calls_as
from traindx.probes.read.common.tracebacks import UNSEEN

Hear = Callable[[Any, tuple[Any, ...], dict[str, Any], Any, FrameType], None]

_OWNERS = (Tensor, torch, functional, torch.linalg, torch.fft, torch.special)
SWEPT = 100  # functions that are put right at the beginning of a step, of about a thousand
MOST_MISSED = 8  # times that all of torch is heard again, because a loss was made of something new
WIDE = 16  # losses that are heard whole when a step went otherwise
# torch asks whether an activation is one of these; Lightning keeps the reductions and asks for them later
_ASKED_FOR = {(functional, "relu"), (functional, "gelu"), *((torch, name) for name in ("mean", "sum", "max", "min"))}
_VIEWS = ("T", "mT", "H", "mH", "real", "imag")  # attributes that are calls
_OPERATORS = ("__pow__", "__neg__", "__pos__", "__abs__", "__ipow__", "__itruediv__", "__rtruediv__")
_METHODS = {"__truediv__": "div", "__itruediv__": "div_", "__radd__": "add", "__rmul__": "mul"}  # operators that are methods
_NO_TENSOR = frozenset(
    {
        *("backward", "item", "tolist", "numpy", "numel", "nelement", "dim", "ndimension", "size", "stride", "storage_offset"),
        *("element_size", "data_ptr", "register_hook", "register_post_accumulate_grad_hook", "retain_grad"),
        *("get_device", "has_names", "storage", "untyped_storage", "equal", "allclose", "share_memory_", "pin_memory"),
        *("record_stream", "module_load", "__array__", "__array_wrap__", "__bool__", "__complex__", "__contains__"),
        *("__deepcopy__", "__dlpack__", "__dlpack_device__", "__float__", "__format__", "__index__", "__int__", "__len__"),
        *("__long__", "__nonzero__", "__reduce_ex__", "__repr__", "__setstate__", "result_type", "can_cast", "promote_types"),
        "__getitem__",  # set on the class, it turns a tensor of no dimension into a sequence; see unheard.py
    }
)  # they give no tensor, or the one they were called on
_thread = threading.get_ident


class _Wrapped:
    """One function of torch, and what stands in its place while the tape is open."""

    __slots__ = ("_code", "_original", "_stood", "_view", "_wrapper", "call", "name", "owner", "told")

    def __init__(self, owner: Any, name: str, tape: Tape) -> None:
        self.owner, self.name = owner, name
        self._original = self._stood = vars(owner).get(name)  # None: inherited
        self.call = self.told = getattr(owner, name)  # what is called, and what is said to have been called
        self._view = not callable(self.call)
        if name.startswith("__"):
            self.told = getattr(Tensor, _METHODS.get(name, name.strip("_")), self.call)
        made = _wrapper(tape, self)
        bare = isinstance(self.call, BuiltinFunctionType)
        self._wrapper: Any = property(made) if self._view else unbound(made) if bare else made
        self._code = InCode(self._original, made) if in_python(self._original) else None

    def on(self) -> None:
        stood = vars(self.owner).get(self.name)
        if self._code is not None:
            if not self._code.put and stood is self._original:
                self.call = self._code.on()
            return
        if not (stood is self._original or _a_tap(stood)) or _leads_to(stood, self._wrapper) or id(self._original) in HELD:
            return  # somebody else has put something there, and may call what stood there before: us
        self._stood, self.call = stood, getattr(self.owner, self.name)
        if self._view:
            self.call = self.call.__get__
        if not self.name.startswith("__"):
            self.told = self.call
        setattr(self.owner, self.name, self._wrapper)

    def off(self) -> None:
        if self._code is not None:
            self._code.off()
            return
        if vars(self.owner).get(self.name) is not self._wrapper:
            return  # somebody has patched over it: theirs calls ours, which calls the original
        if self._stood is not None:
            setattr(self.owner, self.name, self._stood)
        else:
            delattr(self.owner, self.name)


def _a_tap(thing: Any) -> bool:
    """Whether it is one of our own patches."""
    code = getattr(getattr(thing, "func", thing), "__code__", None)
    return code is not None and code.co_filename == UNSEEN


def _leads_to(thing: Any, wrapper: Any) -> bool:
    """Whether it is this wrapper, or calls it: a script may have put a wrapper back that it had found there."""
    while thing is not None and thing is not wrapper:
        thing = getattr(thing, "__wrapped__", None)
    return thing is not None


def _wrapper(tape: Tape, one: _Wrapped) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if tape.busy():
            return one.call(*args, **kwargs)  # a call of our own, while we read
        caller = sys._getframe(1)
        if caller.f_code.co_filename == UNSEEN and caller.f_back is not None:
            caller = caller.f_back  # the function whose code leads here
        hear = tape.hears() if not tape.inside else None
        if hear is None and not tape.standing:
            one.off()  # a script has found it on such a step and put it back later
        try:
            if hear is None:
                return calls_as(caller)(one.call, args, kwargs)
            tape.inside = True
            try:
                out = calls_as(caller)(one.call, args, kwargs)
            finally:
                tape.inside = False
        except BaseException as error:
            own = error.__traceback__ and error.__traceback__.tb_next
            error.__traceback__ = own and own.tb_next  # the user's traceback is the user's
            raise
        tape.used[one] = None
        hear(one.told, args, kwargs, out, caller)
        return out

    disguise(call, one.call)
    return call


def _never() -> bool:
    return False


class Tape:
    """The one set of wrappers; whoever opens it hears the calls of his own thread until he closes it."""

    def __init__(self) -> None:
        self._wrapped: list[_Wrapped] = []
        self._on: list[_Wrapped] = []
        self._hear: Hear | None = None
        self.busy: Callable[[], bool] = _never  # whether the calls that are made now are our own
        self._thread = self._swept = 0
        self._wide = 0  # losses that are heard whole before that
        self._missed = 0  # times that a loss was made of more than was heard
        self.used: dict[_Wrapped, None] = {}  # those that were heard so far
        self._narrow = False  # they are enough
        self.inside = False  # a heard call is under way: what it calls in turn is part of it

    def hears(self) -> Hear | None:
        """Who hears a call that is made now."""
        return self._hear if self._thread == _thread() else None

    @property
    def standing(self) -> bool:
        """Whether the wrappers are in place."""
        return bool(self._on)

    def on(self) -> None:
        """The step to come is looked at: let the wrappers stand."""
        if self._on:
            return
        if not self._wrapped:
            back = PATCHES.lift()  # torch keeps the list of its functions once it was asked for it
            try:
                self._wrapped = [_Wrapped(owner, name, self) for owner, name in _points()]
            finally:
                back()
        PATCHES.above = self
        self._on = list(self.used) if self._narrow else self._wrapped
        self._swept = (self._swept + SWEPT) % len(self._wrapped)
        for one in self._wrapped[self._swept : self._swept + SWEPT]:
            one.off()  # a script may have found it, and put it back
        for one in self._on:
            one.on()

    def off(self) -> None:
        """Let the originals stand again."""
        for one in self._on:
            one.off()
        self._on = []

    def open(self, hear: Hear, busy: Callable[[], bool] = _never) -> bool:
        """Hear every call from now on but those made while `busy`; False when somebody else does."""
        if self._hear is not None:
            return False
        self.on()
        self._hear, self._thread, self.busy = hear, _thread(), busy
        return True

    def close(self, hear: Hear) -> None:
        """Hear no more."""
        if hear == self._hear:
            self._hear = None

    @property
    def whole(self) -> bool:
        """Whether every call is heard, and not only those that losses were made of so far."""
        return not self._narrow

    def doubt(self) -> None:
        """A step went otherwise: hear all calls for a while, for its loss may have been made of others."""
        if self._missed < MOST_MISSED:
            self._wide = WIDE
            self.learnt(False)

    def learnt(self, whole: bool) -> None:
        """A loss was made, of calls that were heard or of others, too: hear those, or all of them again."""
        self._wide -= whole and self._wide > 0
        if whole == self._narrow or (self._wide if whole else self._missed >= MOST_MISSED):
            return
        self._missed += not whole
        standing = self.standing
        self.off()
        self._narrow = whole
        if standing:
            self.on()

    def reset(self) -> None:
        """Nobody observes any more."""
        self.off()
        for one in self._wrapped:
            one.off()
        self._hear, self.busy, self.used, self._narrow, self._missed, self._wide = None, _never, {}, False, 0, 0


def _points() -> list[tuple[Any, str]]:
    """Where the functions live that a loss may be made of."""
    listed = get_overridable_functions()
    names = {owner: {getattr(f, "__name__", "") for f in listed.get(owner, ())} for owner in _OWNERS}
    names[torch] |= {getattr(f, "__name__", "") for f in listed.get(torch.functional, ())}
    names[torch.autograd] = {"grad"}  # a penalty on a gradient is part of the loss
    # where a loss ends that the script has bound by name, and that is not heard by it
    names[innards.losses] = {name for name in dir(innards.losses) if "loss" in name}
    names[Tensor] |= {*_VIEWS, *_OPERATORS, "unflatten"}
    return [
        (owner, name)
        for owner, found in names.items()
        for name in sorted(found)
        if name not in _NO_TENSOR
        and not name.startswith(("is_", "__get__"))
        and hasattr(owner, name)
        and (owner, name) not in _ASKED_FOR
        and (
            owner is Tensor
            or not isinstance(f := getattr(owner, name), FunctionType)
            or in_python(f)
            or owner is torch.autograd
        )
    ]


TAPE = Tape()
