"""Inside a process below `traindx run COMMAND`: waits until it builds something to train, then observes it to its end.

Or inside one that trains already (`come`): observes it from its next pass on, until it is told to leave (`leave`).
What was asked for comes in one variable, as JSON. Processes that only import torch (launchers, loader workers) write nothing.
Imports only the standard library, torch and numpy: the environment need not have traindx.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traindx.plain import say

VARIABLE = "TRAINDX_RUN"
LEAVE = "leave"  # the name of the file that orders to
current: Any = None  # the watcher of this process


def _nothing() -> None:
    """There is nothing to call off."""


_away: Callable[[], None] = _nothing  # ends the waiting for the next pass


def wishes() -> dict[str, Any]:
    """What the command line asked for."""
    found = json.loads(os.environ[VARIABLE])
    return found if isinstance(found, dict) else {}


def arrived() -> None:
    """torch has been imported: begin with the first module, optimizer, loader or backward pass."""
    torch: Any = sys.modules["torch"]
    _cells()
    points = [(torch.nn.Module, "__init__"), (torch.optim.Optimizer, "__init__"), (torch.utils.data.DataLoader, "__init__")]
    _at_the_first_of([*points, (torch.Tensor, "backward"), (torch.autograd, "backward")], begin)


def _at_the_first_of(points: list[tuple[Any, str]], then: Callable[[], None]) -> Callable[[], None]:
    """Do this before the first call of one of these functions; gives what calls it off."""
    kept = [(owner, name, getattr(owner, name)) for owner, name in points]

    def off() -> None:
        for owner, name, original in kept:
            if getattr(getattr(owner, name), "__wrapped__", None) is original:
                setattr(owner, name, original)

    def go() -> None:
        off()
        then()

    for owner, name, original in kept:
        setattr(owner, name, _once(owner, name, original, go))
    return off


def _once(owner: Any, name: str, original: Callable[..., Any], go: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        go()
        return getattr(owner, name)(*args, **kwargs)

    return call


def come(asked: dict[str, Any]) -> None:
    """Observe a program that is training already; called by itself, between two instructions of its main thread.

    It begins with the next pass, not now: who knows what is half done. The answer goes into the folder of the one who asked.
    """
    global _away
    from traindx.probes.drive.patches import PATCHES

    torch: Any = sys.modules["torch"]
    if not threading.main_thread().is_alive():
        answer: dict[str, Any] = {"refused": "it is ending"}
    elif PATCHES.observers:
        where = getattr(PATCHES.observers[0].recorder.sink, "path", "")
        answer = {"refused": "it is observed already", "record": str(where)}
    else:
        answer = {"updates": _updates()}
        points = [(torch.Tensor, "backward"), (torch.autograd, "backward"), (torch.autograd, "grad")]
        _away()  # somebody may have asked before, and gone since
        _away = _at_the_first_of([*points, (torch.optim.Optimizer, "zero_grad")], functools.partial(begin, asked))
    tell(asked["job"], answer)


def tell(job: str, answer: dict[str, Any], kind: str = "json") -> None:
    """Answer the one who asked, all at once, if he still listens."""
    made = Path(job) / f".{os.getpid()}"
    try:
        made.write_text(json.dumps(answer), encoding="utf-8")
        made.replace(Path(job) / f"{os.getpid()}.{kind}")
    except FileNotFoundError:
        return


def _updates() -> int | None:
    """The updates that were made so far, where an optimizer keeps their count."""
    torch: Any = sys.modules["torch"]
    kinds, most = torch.optim.Optimizer, 0
    for thing in gc.get_objects():
        for held in list(thing.state.values()) if issubclass(type(thing), kinds) else ():
            count: Any = held.get("step") if isinstance(held, dict) else None
            if isinstance(count, int | float) or (type(count) is torch.Tensor and count.device.type == "cpu"):
                most = max(most, int(count))
    return most or None


class Leaving:
    """Called after each update: whether enough was seen, or the one who asked wants no more, or has gone."""

    def __init__(self, job: str, most: int) -> None:
        self._order, self._left, self._next = Path(job) / LEAVE, most, 0.0

    def __call__(self, step: int, row: Any) -> None:
        self._left -= 1
        now = time.monotonic()
        if now > self._next:
            self._next = now + 0.5
            if self._order.exists() or not self._order.parent.is_dir():
                self._left = 0
        if not self._left:
            leave(str(self._order.parent))


def leave(job: str) -> None:
    """Stop observing and take every patch out, with the next call that one of them hears.

    Not in an optimizer's own hooks: torch is walking through them then, and they must stay as they are.
    """
    global _away
    _away()
    _away = _nothing
    tell(job, {})
    if current is None:
        tell(job, {}, "left")
        return
    from traindx.probes.drive.patches import PATCHES

    def leaving(what: str, *args: Any) -> None:
        if what not in ("step_begins", "step_ends"):
            end("detached")
            tell(job, {}, "left")

    recorder = current.recorder
    recorder.plan.insist(recorder.scene.step)  # no step is skipped: all taps are in
    PATCHES.report = leaving


def begin(asked: dict[str, Any] | None = None) -> None:
    """Observe this process from now on; whatever fails here is said, and the program continues."""
    global current
    try:
        if asked is not None and not Path(asked["job"]).is_dir():
            return  # the one who asked has gone
        if asked is not None:
            current, made = _watcher(asked), _updates()
            current.begin(follow=False, since=asked["since"] if made is None else made)
            current.recorder.scene.facts["attached.guessed"] = made is None
            _leave_compiled()
            current.recorder.on_step.append(Leaving(asked["job"], asked["for"]))
            current.recorder.sink.begun.append(_at_the_end)
            return
        asked, cells = wishes(), _cells()
        if cells is not None and not asked.get("notebook"):
            return  # a kernel that somebody else started: each of its cells is a run
        current = _watcher(asked)
        current.begin(follow=False)
        if cells is not None:
            current.recorder.sink.spoken = cells.spoken
        current.recorder.sink.begun.append(_at_the_end)
        from traindx.probes.launch import attach

        attach.reborn.append(_reborn)
    except Exception as why:
        say(f"this process is not observed: {type(why).__name__}: {why}")


def _leave_compiled() -> None:
    """Compiled code was made from functions as they were: what it was made from stays as it is."""
    from traindx.probes.drive.patches import PATCHES

    counted: Any = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    if counted.get("frames"):
        PATCHES.leave_traced()
        PATCHES.report("compiles")


def _cells() -> Any:
    """The cells of the notebook that runs in this process, if it is a kernel; the one that is running now is known too."""
    if "ipykernel" not in sys.modules:
        return None
    from traindx.bedside import notebook

    cells = notebook.load()
    cells.on = not wishes().get("notebook")
    cells.begins()
    return cells


def _watcher(asked: dict[str, Any]) -> Any:
    from traindx.bedside.watcher import Watcher
    from traindx.settings import Settings

    own: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in asked.get("settings", {}).items()}
    chosen = Settings(**own)
    target = (
        asked["notebook"] if asked.get("notebook") else sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c") else "python"
    )
    name = Path(target).stem.removesuffix("__main__") or Path(target).parent.name
    return Watcher(
        target,
        sys.argv[1:],
        chosen,
        place=functools.partial(_claimed, asked, name),
        budget=asked.get("budget", 0.01),
        addresses=asked.get("alert", ()),
        live=asked.get("live"),
        sync=asked.get("sync"),
        profiler=asked.get("profiler"),
        name=name,
    )


def _claimed(asked: dict[str, Any], name: str) -> Path:
    """A folder for this run; the ranks of a job share it, and of two runs that begin together each has its own."""
    from traindx.probes.drive import session

    while True:
        path = Path(asked["folder"]) if asked.get("folder") else session.below(Path(asked["dir"]), name)
        try:
            path.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            if session.world() < 2 and not asked.get("folder"):
                continue
        _note(asked.get("job"), path)
        return path


def _note(job: str | None, path: Path) -> None:
    """Tell the process above which run this is."""
    if job and Path(job).is_dir():
        (Path(job) / str(os.getpid())).write_text(str(path), encoding="utf-8")


def _reborn() -> None:
    """A forked child makes an update: what its parent attached only passes calls through, so it begins for itself."""
    from traindx.probes.drive.patches import PATCHES

    for observer in PATCHES.observers:
        PATCHES.remove(observer)
    begin()


def _at_the_end(path: Path) -> None:
    """Complete the record when the program ends: before its writer does, and in processes of multiprocessing too."""
    atexit.register(end)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, end, exitpriority=10)


def end(how: str = "closed") -> None:
    """The program ends, or we leave it: complete the record."""
    global current
    watcher, current = current, None
    if watcher is None:
        return
    from traindx.probes.launch.script_runner import Ended

    atexit.unregister(end)
    error = getattr(sys, "last_value", None)
    failed = isinstance(error, BaseException) and how == "closed"
    watcher.end(Ended(1, "exception", error) if failed else Ended(0, how))
