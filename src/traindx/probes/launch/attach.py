"""Zero-code observation begins and ends: what the taps report is told to the recorder, through one guard."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from torch import nn

from traindx import innards
from traindx.probes.drive.patches import PATCHES, forks
from traindx.probes.drive.recorder import Recorder
from traindx.probes.follow.follower import Follower
from traindx.probes.follow.skipped import UNHEARD, Skip
from traindx.probes.hear import forward_backward, library_metrics, trackers, training_loop

clock = time.perf_counter


class Observer:
    """A recorder with its follower, as the patches see it: every report goes through one guard."""

    def __init__(self, recorder: Recorder, follower: Follower) -> None:
        self.recorder, self.follower = recorder, follower
        self._on = follower.on
        self._born = forks[0]
        self.thread: int | None = None  # the training thread, known from the first backward on

    def told(self, what: str, *args: Any) -> None:
        """Hear of something; never raises, never re-enters, counts its own time and the detour that led here."""
        recorder = self.recorder
        if forks[0] != self._born and what == "step_begins" and reborn:
            reborn.pop()()
        if recorder.busy or recorder.off or forks[0] != self._born or _tracing() is not None or _interpreters() is not None:
            return  # traced or transformed: what passes then are no numbers, and what we did would be recorded
        if self.thread != _thread() and self.thread is not None:
            return
        recorder.busy = True
        begun = clock()
        try:
            skip = PATCHES.skip
            if skip is not None and not skip.beside(what, args):
                if what in UNHEARD:
                    return
                skip.wake()
            if _modes() or _dispatch_modes():
                with _Modeless(), innards.modes_off():  # modes are the script's own: what we do is none of their business
                    self._on[what](*args)
            else:
                self._on[what](*args)
            if self.thread is None and what == "step_begins":
                self.thread = _thread()
                trackers.install(PATCHES)  # by now the script has imported what it logs with
        except Exception as error:  # the promise: nothing of ours reaches the user's code
            recorder.failed("recorder", what, error)
        finally:
            recorder.busy = False
            recorder.spent_s += clock() - begun + recorder.detour_s

    __call__ = told


_thread = threading.get_ident
_tracing = innards.tracing_state
_interpreters = innards.interpreters
_modes = innards.function_modes
_dispatch_modes = innards.dispatch_modes
_Modeless = innards.FunctionsOff


reborn: list[Callable[[], None]] = []  # what a forked child does at its first update, where it is to be observed


def attach(recorder: Recorder, *, models: list[nn.Module] | None = None, optimizers: list[Any] | None = None) -> Observer:
    """Begin to observe; `detach` ends it."""
    if optimizers:
        training_loop.bring_compiler(PATCHES)
    observer = Observer(recorder, Follower(recorder, PATCHES, list(models or ()), list(optimizers or ())))
    recorder.detour_s = _detour()
    observer.follower.updates.on_close.append(Skip(observer, observer.follower, PATCHES).decide)
    if PATCHES.add(observer):
        for taps in (forward_backward, training_loop, trackers, library_metrics):
            taps.install(PATCHES)
    return observer


def _detour() -> float:
    """Seconds of a patched call that no clock of ours sees (wrapper, arguments, frames), on this machine and in cold caches."""
    call = forward_backward.around(lambda: None, before=lambda args, kwargs: None)
    best = math.inf
    for _ in range(5):
        begun = clock()
        for _ in range(40):
            call()
        best = min(best, clock() - begun)
    return 2.0 * best / 40  # in situ Python is about twice as slow as in a hot loop (reference/performance.md 2d)


def detach(observer: Observer) -> None:
    """Stop observing: the follower is brought to its end, every patch undone."""
    observer.thread = None
    observer("finish")
    PATCHES.remove(observer)
