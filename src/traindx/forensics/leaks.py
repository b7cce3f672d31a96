"""Graphs that are kept alive: how many autograd nodes live tensors hold, and which name of the program holds the most."""

from __future__ import annotations

import ast
import gc
import sys
import time
import weakref
from collections import deque
from collections.abc import Mapping
from types import CellType, FrameType, FunctionType
from typing import Any, ClassVar

from torch import Tensor

from traindx import innards, opening
from traindx.forensics.places import ours
from traindx.probe import Probe, Reading, Scene

_COLLECTIONS = (list, deque, dict, set, tuple)
_next_number = innards.sequence_nr
FIRST, MOST_CENSUSES = 10, 8  # the step of the first census; each later one at twice the step or more
SHARE = 0.003  # [def] of the time: a census walks all objects of the program
MOST_NODES, MOST_SECONDS = 50_000, 0.1
CHECK, OLD = 60, 40  # [def] the step of the first look at marks; a graph that outlives its step by 40 is kept, not in use
MOST_MARKS, LEAST_MARKS, ALIVE = 64, 5, 0.8
LEAST, EVEN = 0.2, 0.6  # [def] nodes per step; a leak continues at its pace, a buffer that fills up slows down


class _Mark:
    """Lives as long as the autograd node it was left with."""

    __slots__ = ("__weakref__",)


class Graphs(Probe):
    """Whether graphs outlive their steps: `mem/graph_nodes` at a few steps, and `memory.growth` with the line that keeps them.

    Two ways. A mark is left with the loss of a few steps (a third of a microsecond): marks that live on many steps later are
    graphs that somebody keeps, however short the run. And a census, dear and rare, counts nodes and names the holder.
    """

    light = True
    ordinary: ClassVar[tuple[str, ...] | None] = ("after_step",)

    def __init__(self, share: float | None = SHARE) -> None:
        self.share = share  # None: at any price
        self._due, self._check = FIRST, CHECK
        self._begun = self._spent = self._cost = 0.0  # the time on all censuses, and on the latest
        self._seen: list[tuple[int, int]] = []
        self._growth: list[dict[str, Any]] | None = None
        self._number = 0  # autograd's running number at the previous census
        self._marks: list[tuple[int, int, weakref.ref[_Mark]]] = []  # step, autograd's number, mark
        self._kept: dict[str, Any] | None = None  # who keeps graphs, by the marks
        self._times = 0  # that the marks said so

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        node = loss.grad_fn
        if scene.full and node is not None and len(self._marks) < MOST_MARKS and not scene.compiled:
            mark = _Mark()
            node.metadata["traindx"] = mark
            self._marks.append((scene.step, _next_number(), weakref.ref(mark)))
        return None

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if scene.step >= self._check:
            self._check = 2 * scene.step
            self._look(scene.step)
        if scene.step < self._due:
            self._begun = self._begun or time.perf_counter()
            return None
        now = time.perf_counter()
        dear = self.share is not None and self._spent + self._cost > self.share * (now - self._begun)
        if dear or scene.compiled or len(self._seen) >= MOST_CENSUSES:
            return None
        self._due = 2 * scene.step
        count, largest = census(self._number, self._marks[0][1] if self._marks else 0)
        self._number = _next_number()
        self._seen.append((scene.step, count))
        if self._growth is None and self._rises() and largest is not None:
            (a, low), (b, high) = self._seen[-2:]
            place = holder(largest)
            self._growth = [{"kind": "graph", "per_step": (high - low) / (b - a), **place}] if place else None
        self._cost = time.perf_counter() - now
        self._spent += self._cost
        return {"mem/graph_nodes": float(count)}

    def last(self, scene: Scene) -> Reading | None:
        if self._kept is not None and self._times < 2 and scene.step > self._kept["step"] + OLD:
            self._look(scene.step)
        self._marks.clear()
        return None

    def facts(self, scene: Scene) -> Mapping[str, Any] | None:
        if self._growth is None and self._kept is not None and self._times >= 2:
            return {"memory.growth": [{k: v for k, v in self._kept.items() if k != "step"}]}
        return {"memory.growth": self._growth} if self._growth else None

    def _look(self, step: int) -> None:
        """Do graphs of long ago still live? The first time they do, find out who keeps them."""
        old = [(number, mark) for at, number, mark in self._marks if step - at > OLD]
        alive = sum(mark() is not None for _, mark in old)
        if len(old) < LEAST_MARKS or alive < ALIVE * len(old):
            self._kept, self._times = None, 0  # let go in the end: a window, or an epoch's worth
            return
        self._times += 1
        if self._kept is None:
            count, root = census(old[-1][0], old[0][0])
            place = holder(root) if root is not None else {}
            self._kept = {"kind": "graph", "per_step": count / max(step, 1), "step": step, **place}
        self._kept |= {"kept": alive, "of": len(old)}

    def _rises(self) -> bool:
        if len(self._seen) < 3:
            return False
        (a, one), (b, two), (c, three) = self._seen[-3:]
        early, late = (two - one) / (b - a), (three - two) / (c - b)
        return early >= LEAST and late >= EVEN * early


def census(since: int = 0, begun: int = 0) -> tuple[int, Tensor | None]:
    """Autograd nodes that live tensors keep alive, and a tensor that keeps them: one from before autograd's number `since`
    (kept over many steps), or else the one that alone keeps most; none from before number `begun`, when we did not look yet."""
    roots = [t for t in gc.get_objects() if type(t) is Tensor and t.grad_fn is not None]
    # the youngest first: what an older one holds is then counted with the one that was built on it
    roots.sort(key=lambda t: -int(t.grad_fn._sequence_nr()))
    seen: set[Any] = set()
    most, largest, ends = 0, None, time.thread_time() + MOST_SECONDS
    for root in roots:
        before = len(seen)
        todo = [root.grad_fn]
        while todo and len(seen) < MOST_NODES and time.thread_time() < ends:
            node = todo.pop()
            if node is not None and node not in seen:
                seen.add(node)
                todo.extend(n for n, _ in node.next_functions)
        if len(seen) - before > most and int(root.grad_fn._sequence_nr()) >= begun:
            most, largest = len(seen) - before, root
    old = next((t for t in reversed(roots) if begun <= int(t.grad_fn._sequence_nr()) < since), None)
    return len(seen), largest if old is None else old


def holder(kept: Tensor) -> dict[str, Any]:
    """The name that holds a tensor (a variable, an attribute, a collection of either) and the line that makes it grow."""
    frames = _user_frames()
    local = _local_name(kept)
    if local is not None:
        return {"holder": local, "line": _line(local, frames)}
    name = _name_of(kept, {id(frames)})
    return {"holder": name, "line": _line(name.rpartition(".")[2], frames)} if name is not None else {}


def _name_of(value: Any, hidden: set[int], depth: int = 3) -> str | None:
    """The name behind which a value is kept, through up to `depth` collections."""
    for thing in gc.get_referrers(value):
        if id(thing) in hidden or isinstance(thing, FrameType):
            continue
        name = _name_in(thing, value)
        if name is None and isinstance(thing, CellType):
            name = _closure_name(thing)
        if name is None and isinstance(thing, _COLLECTIONS):
            name = _local_name(thing) or (_name_of(thing, {*hidden, id(thing)}, depth - 1) if depth > 1 else None)
        if name is not None:
            return name
    return None


def _local_name(value: Any) -> str | None:
    """The local variable of a function of the user's, on the stack now, that is `value` or a collection with it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if not ours(frame.f_code.co_filename) and frame.f_code.co_name != "<module>":
            for name, own in list(frame.f_locals.items()):
                if own is value or (isinstance(own, _COLLECTIONS) and _within(own, value)):
                    return str(name)
        frame = frame.f_back
    return None


def _within(collection: Any, value: Any, most: int = 100_000) -> bool:
    inside = collection.values() if isinstance(collection, dict) else collection
    for item, _ in zip(inside, range(most), strict=False):
        if item is value or (isinstance(item, tuple) and any(part is value for part in item)):
            return True
    return False


def _closure_name(cell: CellType) -> str | None:
    """The name of a variable that an inner function shares with its outer one."""
    for owner in gc.get_referrers(cell):
        for function in gc.get_referrers(owner) if isinstance(owner, tuple) else ():
            own = function.__closure__ if isinstance(function, FunctionType) else None
            if own is not None and own is owner:
                return str(function.__code__.co_freevars[own.index(cell)])
    return None


def _name_in(space: Any, value: Any) -> str | None:
    """The name under which a namespace (of a module, or of an object) holds a value."""
    if not isinstance(space, dict):  # an object that keeps its attributes in itself
        own = getattr(space, "__dict__", None) if not isinstance(space, FrameType | FunctionType | type) else None
        inside = next((k for k, v in list(own.items()) if v is value), None) if isinstance(own, dict) else None
        return f"{type(space).__name__}.{inside}" if inside is not None and not _of_ours(space) else None
    name = next((k for k, v in list(space.items()) if v is value and isinstance(k, str)), None)
    if name is None or not name.isidentifier():
        return None
    if "__name__" in space and "__builtins__" in space:
        return name if not str(space["__name__"]).startswith("traindx.") else None
    owner = next((r for r in gc.get_referrers(space) if getattr(r, "__dict__", None) is space), None)
    return f"{type(owner).__name__}.{name}" if owner is not None and not _of_ours(owner) else None


def _of_ours(thing: Any) -> bool:
    """Whether an object is one of traindx's: what observes is not what the program keeps."""
    return type(thing).__module__.partition(".")[0] == "traindx"


def _user_frames() -> list[tuple[str, str]]:
    """The user's files on the stack, innermost first."""
    found: list[tuple[str, str]] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not ours(file):
            found.append((file, frame.f_code.co_name))
        frame = frame.f_back
    return found


def _line(name: str, frames: list[tuple[str, str]]) -> str:
    """The line of the user's that adds to `name`: `name += …`, `name = name + …`, `name.append(…)`, `name[…] = …`."""
    modules = [getattr(m, "__file__", None) for m in list(sys.modules.values())]
    others = [f for f in modules if isinstance(f, str) and f.endswith(".py") and not ours(f)][:200]
    for file in dict.fromkeys([*(file for file, _ in frames), *others]):
        try:
            tree = ast.parse(opening.whole(file, opening.SOURCE, named=True))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and _adds(node, name):
                return f"{file}:{node.lineno}"
    return ""


def _adds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.AugAssign):
        return _called(node.target) == name
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return _called(target.value) == name
        if isinstance(target, ast.Tuple):  # out, state = net(x, state)
            own = any(_called(part) == name for part in target.elts)
            return own and any(_called(n) == name for n in ast.walk(node.value))
        return _called(target) == name and any(_called(n) == name for n in ast.walk(node.value))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        adds = node.value.func.attr in ("append", "add", "extend", "appendleft", "insert")
        return adds and _called(node.value.func.value) == name
    return False


def _called(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


PROBES = [Graphs]
