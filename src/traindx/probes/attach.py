"""Zero-code observation: patches the points every torch program goes through, inside this process only, and undoes them.

Nothing is ever attached to the user's own objects: no hooks on modules, no attributes, nothing to pickle. A patched
function calls the original with the same arguments and gives back the same object; our frame is taken out of tracebacks
and is not counted by `warnings`.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from traindx.probes import taps, taps_loop, taps_metrics, taps_trackers
from traindx.probes.lane import Lane
from traindx.probes.recorder import Recorder
from traindx.probes.story import Story, clock
from traindx.probes.tracebacks import UNSEEN
from traindx.probes.way import INDIFFERENT, Way

Function = Callable[..., Any]
Maker = Callable[[Function], Function]


class Observer:
    """A recorder with its story, as the patches see it: every report goes through one guard."""

    def __init__(self, recorder: Recorder, story: Story) -> None:
        self.recorder, self.story = recorder, story
        self._on = story.on
        self._born = _forks[0]
        self.thread: int | None = None  # the training thread, known from the first backward on

    def told(self, what: str, *args: Any) -> None:
        """Hear of something; never raises, never re-enters, counts its own time and the detour that led here."""
        recorder = self.recorder
        if recorder.busy or recorder.off or _forks[0] != self._born or _tracing() is not None or _interpreters() is not None:
            return  # traced or transformed: what passes then are no numbers, and what we did would be recorded
        if self.thread != _thread() and self.thread is not None:
            return
        recorder.busy = True
        begun = clock()
        try:
            lane = PATCHES.lane
            if lane is not None and lane.noted and what not in INDIFFERENT:
                lane.flush()
            if _modes() or _dispatch_modes():
                with _Modeless(), _disable_current_modes():  # modes are the script's own: what we do is none of their business
                    self._on[what](*args)
            else:
                self._on[what](*args)
            if self.thread is None and what == "step_begins":
                self.thread = _thread()
                taps_trackers.install(PATCHES)  # by now the script has imported what it logs with
        except Exception as error:  # the promise: nothing of ours reaches the user's code
            recorder.failed("recorder", what, error)
        finally:
            recorder.busy = False
            recorder.spent_s += clock() - begun + recorder.detour_s

    __call__ = told

    def free(self) -> bool:
        """Whether it may listen now: on the training thread, in no transform, and not to itself."""
        recorder = self.recorder
        return not (
            recorder.busy
            or recorder.off
            or _forks[0] != self._born
            or self.thread != _thread()
            or _tracing() is not None
            or _interpreters() is not None
        )


_thread = threading.get_ident
_tracing = torch._C._get_tracing_state
_interpreters = torch._C._functorch.peek_interpreter_stack
_modes = torch._C._len_torch_function_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_Modeless = torch._C.DisableTorchFunction


_forks = [0]  # one more in each forked child: there what the parent attached only passes calls through
os.register_at_fork(after_in_child=lambda: _forks.__setitem__(0, _forks[0] + 1))


class Patch:
    """One name that is replaced for a while."""

    def __init__(self, owner: Any, name: str, make: Maker) -> None:
        self.owner, self.name = owner, name
        self._own = name in vars(owner)
        self._original = vars(owner)[name] if self._own else getattr(owner, name)
        self._wrapper = make(getattr(owner, name))
        self.put = False
        disguise(self._wrapper, self._original)
        if isinstance(self._original, BuiltinFunctionType):
            self._wrapper = unbound(self._wrapper)

    def on(self) -> None:
        """Put it in place; what somebody else has put there meanwhile stays."""
        there = vars(self.owner).get(self.name)
        if not self.put and there is (self._original if self._own else None):
            setattr(self.owner, self.name, self._wrapper)
            self.put = True

    def off(self) -> None:
        if vars(self.owner).get(self.name) is not self._wrapper:
            return  # somebody patched over us: theirs calls ours, which calls the original
        self.put = False
        if self._own:
            setattr(self.owner, self.name, self._original)
        else:
            delattr(self.owner, self.name)


class Above(Protocol):
    """What stands above the patches for a step (`forensics/tape.py`)."""

    @property
    def standing(self) -> bool: ...
    def on(self) -> None: ...
    def off(self) -> None: ...
    def reset(self) -> None: ...


class Patches:
    """The set of patched points; shared by all observers."""

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self.modules: Any = None  # taps.Modules
        self.lane: Way | None = None  # open while an ordinary step is expected
        self.deep = False  # the forward under way is to be read module by module
        self.drawn: Any = None  # indices in the data set of the batch that a DataLoader gave last, where its sampler tells
        self.scalars = True  # numbers that are read off tensors matter
        self._aim()
        self._patches: list[Patch] = []
        self._traced: list[Patch] = []  # those that a compiler would trace into
        self._inside: list[Patch] = []  # those of functions inside a model, on only while every module is looked at
        self._asleep: list[Patch] = []  # of these, the ones that are on while the model is in eval mode, too
        self._undo: list[Callable[[], None]] = []
        self._comparing: Callable[[], None] | None = None  # undoes the tap of comparisons, which is on while evaluating
        self.above: Above | None = None  # stands above the patches on steps that are looked at
        self.tapped: set[tuple[str, str]] = set()  # points of trackers that are patched already

    def add(self, observer: Observer) -> None:
        """Let an observer see everything from now on."""
        self.observers = (*self.observers, observer)
        self.lane = None
        self._aim()
        if len(self.observers) == 1:
            self.deep, self.scalars = False, True
            taps.install(self)
            taps_loop.install(self)
            taps_trackers.install(self)
            taps_metrics.install(self)

    def remove(self, observer: Observer) -> None:
        """Stop an observer; with the last one every patch is undone."""
        self.observers = tuple(o for o in self.observers if o is not observer)
        self.lane = None
        self._aim()
        if self.observers:
            return
        if self.above is not None:
            self.above.reset()
            self.above = None
        self._comparing = None
        while self._undo:
            self._undo.pop()()
        while self._patches:
            self._patches.pop().off()
        self._traced, self._inside, self._asleep, self.modules = [], [], [], None
        self.tapped.clear()

    def _aim(self) -> None:
        """Reports go straight to the one observer there usually is."""
        self.report: Callable[..., None] = self.observers[0].told if len(self.observers) == 1 else self._tell_all

    def _tell_all(self, what: str, *args: Any) -> None:
        for observer in self.observers:
            observer.told(what, *args)

    def replace(
        self,
        owner: Any,
        name: str,
        make: Callable[[Function], Function],
        *,
        traced: bool = False,
        inside: bool = False,
        asleep: bool = False,
    ) -> Callable[[], None]:
        """Put `make(original)` in the place of `owner.name`; gives the function that undoes it before the end."""
        with self._alone():
            patch = Patch(owner, name, make)
            patch.on()
        self._patches.append(patch)
        if traced:
            self._traced.append(patch)
        if inside or asleep:
            self._inside.append(patch)
        if asleep:
            self._asleep.append(patch)

        def undo() -> None:
            with self._alone():
                patch.off()
            if patch in self._patches:
                self._patches.remove(patch)

        return undo

    def inside(self, on: bool) -> None:
        """Put the taps of functions inside a model on or off; scripts that import such a function by name do so while on."""
        with self._alone():
            for patch in self._inside:
                patch.on() if on else patch.off()
        if self.above is not None:
            self.above.on() if on else self.above.off()

    def asleep(self, on: bool) -> None:
        """A model was put into eval mode, or back into training."""
        with self._alone():
            for patch in self._asleep:
                patch.on() if on or (self.modules is not None and self.modules.wide) else patch.off()

    @property
    def comparing(self) -> bool:
        """Comparisons of tensors are being listened to."""
        return self._comparing is not None

    def compare(self, on: bool) -> None:
        """Listen to comparisons of tensors, or no longer: predictions with labels, while evaluating."""
        if on and self._comparing is None and len(self.observers) == 1:
            self._comparing = taps_loop.comparing(self)
        elif not on and self._comparing is not None:
            undo, self._comparing = self._comparing, None
            undo()

    def leave_traced(self) -> None:
        """A compiler is about to read the program: take back for good what it would trace into."""
        if self.above is not None:
            self.above.reset()
            self.above = None
        if self.modules is not None:
            self.modules.stop()
        for patch in reversed(self._traced):
            patch.off()
            self._patches.remove(patch)
        self._traced, self._inside, self._asleep = [], [], []

    def lift(self) -> Callable[[], None]:
        """Take everything back for a moment; the function it gives puts it on again."""
        above = self.above if self.above is not None and self.above.standing else None
        if above is not None:
            above.off()
        patches = [patch for patch in self._patches if patch.put]
        for patch in reversed(patches):
            patch.off()

        def back() -> None:
            for patch in patches:
                patch.on()
            if above is not None:
                above.on()

        return back

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nothing may stand above a patch that is put on or taken off."""
        above = self.above
        stood = above is not None and above.standing
        if above is not None and stood:
            above.off()
        try:
            yield
        finally:
            if above is not None and stood:
                above.on()

    def on_undo(self, action: Callable[[], None]) -> None:
        """Do this, too, when the patches are undone."""
        self._undo.append(action)


def disguise(wrapper: Any, original: Any) -> None:
    """Let a wrapper look like what it wraps, and its frame like none of the program's."""
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        value = getattr(original, attribute, None)
        if value is not None:
            setattr(wrapper, attribute, value)
    wrapper.__wrapped__ = original
    wrapper.__code__ = wrapper.__code__.replace(co_filename=UNSEEN)


def unbound(wrapper: Any) -> Any:
    """A wrapper of a builtin: as an attribute of a class that is no method, and must not become one."""
    bare = partial(wrapper)
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__wrapped__"):
        if hasattr(wrapper, attribute):
            setattr(bare, attribute, getattr(wrapper, attribute))
    return bare


PATCHES = Patches()


def attach(recorder: Recorder, *, models: list[nn.Module] | None = None, optimizers: list[Any] | None = None) -> Observer:
    """Begin to observe; `detach` ends it."""
    if optimizers:
        taps_loop.bring_compiler(PATCHES)
    observer = Observer(recorder, Story(recorder, PATCHES, list(models or ()), list(optimizers or ())))
    recorder.detour_s = _detour()
    observer.story.updates.on_close.append(Lane(observer, PATCHES).plan)
    PATCHES.add(observer)
    return observer


def _detour() -> float:
    """Seconds of a patched call that no clock of ours sees (wrapper, arguments, frames), on this machine and in cold caches."""
    call = taps.around(lambda: None, before=lambda args, kwargs: None)
    best = math.inf
    for _ in range(5):
        begun = clock()
        for _ in range(40):
            call()
        best = min(best, clock() - begun)
    return 2.0 * best / 40  # in situ Python is about twice as slow as in a hot loop (reference/performance.md 2d)


def detach(observer: Observer) -> None:
    """Stop observing: the story is brought to its end, every patch undone."""
    observer.thread = None
    observer("finish")
    PATCHES.remove(observer)


def site(*, to_the_call: bool = False) -> str:
    """file:line of the nearest frame outside torch and traindx; with the place in its code where a line makes several calls."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_OURS):
            return f"{path}:{frame.f_lineno}:{frame.f_lasti}" if to_the_call else f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


_OURS = (f"{Path(torch.__file__).parent}{os.sep}", f"{Path(__file__).parent.parent}{os.sep}", UNSEEN)
