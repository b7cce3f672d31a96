"""The patched points: each is put in place, taken off for a while, and undone, in one registry.

Nothing is ever attached to the user's own objects: no hooks on modules, no attributes, nothing to pickle. A patched
function calls the original with the same arguments and gives back the same object; our frame is taken out of tracebacks
and is not counted by `warnings`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType
from typing import Any, Protocol

from traindx.probes.drive.stand_in import Compiled, InCode, in_python, twin
from traindx.probes.read.common.tracebacks import UNSEEN

Function = Callable[..., Any]
Maker = Callable[[Function], Function]
HELD: set[int] = set()  # builtins that a model or its file holds as a value: they are left where they are
forks = [0]  # one more in each forked child: there what the parent attached only passes calls through


class Patch:
    """One name that is replaced for a while."""

    def __init__(self, owner: Any, name: str, make: Maker) -> None:
        self.owner, self.name = owner, name
        self._own = name in vars(owner)
        self._original = vars(owner)[name] if self._own else getattr(owner, name)
        inside = in_python(self._original)
        self._wrapper = make(twin(self._original) if inside else getattr(owner, name))
        self.put = False
        disguise(self._wrapper, self._original)
        self._code = InCode(self._original, self._wrapper) if inside else None
        if isinstance(self._original, BuiltinFunctionType):
            self._wrapper = unbound(self._wrapper)

    def on(self) -> None:
        """Put it in place; what somebody else has put there meanwhile stays."""
        there = vars(self.owner).get(self.name)
        if self.put or there is not (self._original if self._own else None) or id(self._original) in HELD:
            return
        self.put = True
        if self._code is not None:
            self._code.on()
        else:
            setattr(self.owner, self.name, self._wrapper)

    def off(self) -> None:
        if self._code is not None:
            self._code.off()
            self.put = self._code.put
            return
        if vars(self.owner).get(self.name) is not self._wrapper:
            return  # somebody patched over us: theirs calls ours, which calls the original
        self.put = False
        if self._own:
            setattr(self.owner, self.name, self._original)
        else:
            delattr(self.owner, self.name)


class Hears(Protocol):
    """Who is told what the taps report."""

    recorder: Any
    thread: int | None

    def told(self, what: str, *args: Any) -> None: ...


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
        self.observers: tuple[Hears, ...] = ()
        self.modules: Any = None  # forward_backward.Modules
        self.skip: Any = None  # `follow.skipped.Skip`, while steps are skipped
        self.deep = False  # the forward under way is to be read module by module
        self.drawn: Any = None  # indices in the data set of the batch that a DataLoader gave last, where its sampler tells
        self.scalars = True  # numbers that are read off tensors matter
        self.acts: frozenset[int] = frozenset()  # samples that a policy at work is asked for: such passes are left alone
        self._aim()
        self._patches: list[Patch] = []
        self._resting: list[Patch] = []  # those that are off while steps are skipped
        self._short: list[Patch] = []  # those that are on only then
        self._rests: list[Patch] = []  # those that can be: every step goes through them
        self._traced: list[Patch] = []  # those that a compiler would trace into
        self._inside: list[Patch] = []  # those of functions inside a model, on only in a forward that is read module by module
        self._asleep: list[Patch] = []  # those that are on while every module is looked at, or the model is in eval mode
        self._undo: list[Callable[[], None]] = []
        self.comparisons: Callable[[Patches], Callable[[], None]] = lambda patches: lambda: None  # taps comparisons
        self._comparing: Callable[[], None] | None = None  # undoes the tap of comparisons, which is on while evaluating
        self.above: Above | None = None  # stands above the patches on steps that are looked at
        self.tapped: set[tuple[str, str]] = set()  # points of trackers that are patched already
        self._covered: list[Patch] = []  # to be undone once nobody else stands above them

    def add(self, observer: Hears) -> bool:
        """Let an observer see everything from now on; whether it is the first, for whom the taps are to be installed."""
        self.observers = (*self.observers, observer)
        self.skip = None
        self._aim()
        if len(self.observers) > 1:
            return False
        self.deep, self.scalars, self.acts = False, True, frozenset()
        return True

    def remove(self, observer: Hears) -> None:
        """Stop an observer; with the last one every patch is undone."""
        self.observers = tuple(o for o in self.observers if o is not observer)
        self.skip = None
        self._aim()
        if self.observers:
            return
        if self.above is not None:
            self.above.reset()
            self.above = None
        self._comparing = None
        while self._undo:
            self._undo.pop()()
        self._covered += self._patches
        self._patches = []
        self._uncover()
        self._traced, self._inside, self._asleep, self._rests, self.modules = [], [], [], [], None
        HELD.clear()
        self._resting, self._short = [], []
        self.tapped.clear()

    def forked(self) -> None:
        """This is a forked child: whatever the parent attached only passes calls through."""
        forks[0] += 1
        skip, self.skip = self.skip, None
        if skip is not None:
            self.stir(skip.kinds)

    def _aim(self) -> None:
        """Reports go straight to the one observer there usually is."""
        self.report: Callable[..., None] = self.observers[0].told if len(self.observers) == 1 else self._tell_all

    def _tell_all(self, what: str, *args: Any) -> None:
        for observer in self.observers:
            observer.told(what, *args)
        if not self.observers:
            self._uncover()  # a script had found one of our wrappers, and has put it back since

    def _uncover(self) -> None:
        """Undo what can be undone by now, the latest first."""
        for patch in reversed(self._covered):
            patch.off()
        self._covered = [patch for patch in self._covered if patch.put]

    def replace(
        self,
        owner: Any,
        name: str,
        make: Callable[[Function], Function],
        *,
        traced: bool = False,
        inside: bool = False,
        asleep: bool = False,
        rests: bool = False,
    ) -> Callable[[], None]:
        """Put `make(original)` in the place of `owner.name`; gives the function that undoes it before the end."""
        with self._alone():
            patch = Patch(owner, name, make)
            if not inside:
                patch.on()
        self._patches.append(patch)
        if traced:
            self._traced.append(patch)
        if inside:
            self._inside.append(patch)
        if asleep:
            self._asleep.append(patch)
        if rests:
            self._rests.append(patch)

        def undo() -> None:
            with self._alone():
                patch.off()
            if patch in self._patches:
                self._patches.remove(patch)

        return undo

    def inside(self, on: bool) -> None:
        """Put the taps of functions inside a model on or off: a forward begins that is read module by module, or it ends."""
        with self._alone():
            for patch in self._inside:
                patch.on() if on else patch.off()

    def wide(self, on: bool) -> None:
        """Every module is looked at from now on, or no longer."""
        self.asleep(on)
        if self.above is not None:
            self.above.on() if on else self.above.off()

    def leave(self, held: Iterable[int]) -> None:
        """The script holds these functions as values: they stay where they are."""
        if found := set(held) - HELD:
            HELD.update(found)
            self.clear_above()

    def clear_above(self) -> None:
        """Nothing needs to stand above the patches until the next step that is looked at."""
        if self.above is not None:
            self.above.off()

    def rest(self, kinds: Iterable[type], make: Maker, taps: list[tuple[Any, str, Maker]]) -> None:
        """Let the originals stand in every place that a step goes through, but for calls of these classes and few taps."""
        self.compare(False)
        if self.modules is not None:
            self.modules.lend(kinds, make)
        with self._alone():
            self._resting = [patch for patch in self._rests if patch.put]
            for patch in reversed(self._resting):
                patch.off()
            if not self._short:
                self._short = [Patch(owner, name, own) for owner, name, own in taps]
                self._patches += self._short
            for patch in self._short:
                patch.on()

    def stir(self, kinds: Iterable[type]) -> None:
        """Put back what rests."""
        with self._alone():
            for patch in self._short:
                patch.off()
            for patch in self._resting:
                patch.on()
        self._resting = []
        if self.modules is not None:
            self.modules.narrow(kinds)

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
            self._comparing = self.comparisons(self)
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
    """A wrapper of a builtin that passes for it."""
    bare = Compiled(wrapper)
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__wrapped__"):
        if hasattr(wrapper, attribute):
            setattr(bare, attribute, getattr(wrapper, attribute))
    return bare


PATCHES = Patches()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PATCHES.forked)
