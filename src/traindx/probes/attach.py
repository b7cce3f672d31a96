"""Zero-code observation: patches the points every torch program goes through, inside this process only, and undoes them.

Nothing is ever attached to the user's own objects: no hooks on modules, no attributes, nothing to pickle. A patched
function calls the original with the same arguments and gives back the same object; our frame is taken out of tracebacks.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from traindx.probes import taps
from traindx.probes.recorder import Recorder
from traindx.probes.story import Story, clock


class Observer:
    """A recorder with its story, as the patches see it: every report goes through one guard."""

    def __init__(self, recorder: Recorder, story: Story) -> None:
        self.recorder, self.story = recorder, story
        self.pid = os.getpid()
        self.thread: int | None = None  # the training thread, known from the first backward on

    def __call__(self, what: str, *args: Any) -> None:
        """Report something; never raises, never re-enters, counts its own time."""
        recorder = self.recorder
        if recorder.off or recorder.busy or os.getpid() != self.pid:
            return
        if self.thread is not None and self.thread != threading.get_ident():
            return
        recorder.busy = True
        begun = clock()
        try:
            getattr(self.story, what)(*args)
        except Exception as error:  # the promise: nothing of ours reaches the user's code
            recorder.failed("recorder", what, error)
        finally:
            recorder.busy = False
            recorder.spent_s += clock() - begun


class Patches:
    """The set of patched points; counted, so that several observers share them."""

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self._undo: list[Callable[[], None]] = []

    def add(self, observer: Observer) -> None:
        """Let an observer see everything from now on."""
        self.observers = (*self.observers, observer)
        if len(self.observers) == 1:
            taps.install(self)

    def remove(self, observer: Observer) -> None:
        """Stop an observer; with the last one every patch is undone."""
        self.observers = tuple(o for o in self.observers if o is not observer)
        if not self.observers:
            while self._undo:
                self._undo.pop()()

    def report(self, what: str, *args: Any) -> None:
        for observer in self.observers:
            observer(what, *args)

    def busy(self) -> bool:
        return any(o.recorder.busy for o in self.observers)

    def replace(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put `make(original)` in the place of `owner.name` until the patches are undone."""
        own = name in vars(owner)
        original = getattr(owner, name)
        wrapper = make(original)
        functools.update_wrapper(wrapper, original)
        setattr(owner, name, wrapper)

        def undo() -> None:
            if vars(owner).get(name) is not wrapper:
                return  # somebody patched over us: theirs calls ours, which calls the original
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

        self._undo.append(undo)

    def on_undo(self, action: Callable[[], None]) -> None:
        self._undo.append(action)


PATCHES = Patches()


def attach(recorder: Recorder, *, models: list[nn.Module] | None = None, optimizers: list[Any] | None = None) -> Observer:
    """Begin to observe; `detach` ends it."""
    observer = Observer(recorder, Story(recorder, models=models, optimizers=optimizers))
    PATCHES.add(observer)
    return observer


def detach(observer: Observer) -> None:
    """Stop observing: the story is brought to its end, every patch undone."""
    observer("finish")
    PATCHES.remove(observer)


def site(depth: int = 2) -> str:
    """file:line of the nearest frame outside torch and traindx."""
    frame: Any = sys._getframe(depth)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_OURS):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


_OURS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
