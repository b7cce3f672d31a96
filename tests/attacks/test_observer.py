"""What the script's own signals, threads and modules do, they do under observation too (S4, S6)."""

from __future__ import annotations

import copy
import ctypes
import functools
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from traindx import api
from traindx.forensics.arm import arm
from traindx.forensics.tape import TAPE
from traindx.probe import Probe
from traindx.probes.drive import recorder as recorder_
from traindx.probes.drive.recorder import Recorder
from traindx.probes.launch.attach import attach, detach


class Preempted(Exception):
    """A type of the script's own."""


def plain(signum: int, frame: Any) -> None:
    raise Preempted


def forgetful(*given: Any) -> None:
    raise TimeoutError("too long")


def asks_first(signum: int, frame: Any) -> None:
    def inner() -> None:
        raise RuntimeError("told to stop")

    inner()


class Callable_:
    def __call__(self, signum: int, frame: Any) -> None:
        raise ValueError("preempted")


HANDLERS: dict[str, Any] = {
    "plain": plain,
    "forgetful": forgetful,
    "nested": asks_first,
    "object": Callable_(),
    "partial": functools.partial(lambda word, signum, frame: plain(signum, frame), "x"),
}


class Interrupted(Probe):
    """A signal arrives while a probe is at work."""

    cadence = "step"

    def __init__(self, deliver: Callable[[], None]) -> None:
        self.deliver, self.left = deliver, 1

    def on_backward(self, scene: Any, *args: Any) -> None:
        if scene.step == 2 and self.left:
            self.left = 0
            self.deliver()


def train(model: nn.Module, steps: int = 6) -> None:
    optimizer = torch.optim.SGD([p for p in nn.Module.parameters(model) if p.requires_grad], lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(torch.randn(4, 3)), torch.randn(4, 1)).backward()
        optimizer.step()


def observed(*probes: Probe, model: nn.Module | None = None) -> Recorder:
    recorder = Recorder(probes=list(probes) or None, budget=None)
    observer = attach(recorder)
    try:
        train(model if model is not None else nn.Linear(3, 1))
    finally:
        detach(observer)
        recorder.close()
    return recorder


@pytest.mark.parametrize("name", HANDLERS)
def test_what_a_signal_handler_raises_reaches_the_script(name: str) -> None:
    before = signal.signal(signal.SIGUSR1, HANDLERS[name])
    try:
        with pytest.raises((Preempted, TimeoutError, RuntimeError, ValueError)):
            observed(Interrupted(lambda: os.kill(os.getpid(), signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_another_thread_throws_in_reaches_the_script() -> None:
    throw = functools.partial(
        ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(threading.get_ident()), ctypes.py_object(Preempted)
    )
    space: dict[str, Any] = {}  # it must land in a line of the package, as it does when one of its probes is at work
    exec(compile("def at_work(throw):\n    throw()\n    list(map(str, range(1000)))\n", recorder_.__file__, "exec"), space)
    with pytest.raises(Preempted):
        observed(Interrupted(functools.partial(space["at_work"], throw)))


def test_what_we_raise_ourselves_does_not() -> None:
    def bug() -> None:
        raise ValueError("ours")

    assert observed(Interrupted(bug)).failures[0].error == "ValueError: ours"


def test_an_error_that_cannot_even_be_noted_does_not_reach_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise LookupError("no text")

    def bug() -> None:
        raise Mute

    assert observed(Interrupted(bug)).off

    def no_clock() -> float:
        raise OSError("no clock")

    monkeypatch.setattr(time, "time", no_clock)  # as a script that freezes time may do
    observed(*(Interrupted(bug) for _ in range(3)))


class Odd(nn.Module):
    """A model whose class answers in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        return out


def _raises(*args: Any, **kwargs: Any) -> Any:
    raise LookupError("ask nothing")


def _lazily_raises(*args: Any, **kwargs: Any) -> Iterator[Any]:
    raise LookupError("ask nothing")
    yield


ODD: dict[str, dict[str, Any]] = {
    "eq-raises": {"__eq__": _raises, "__hash__": nn.Module.__hash__},
    "eq-gives-a-tensor": {"__eq__": lambda self, other: torch.ones(2), "__hash__": nn.Module.__hash__},
    "unhashable": {"__eq__": lambda self, other: self is other, "__hash__": None},
    "hash-raises": {"__hash__": _raises},
    "modules-raises": {"modules": _raises, "named_modules": _raises, "children": _raises},
    "modules-raises-late": {"modules": _lazily_raises, "named_modules": _lazily_raises},
    "parameters-raises": {"named_parameters": _lazily_raises, "state_dict": _raises},
    "getattr-raises": {"__getattr__": lambda self, name: nn.Module.__getattr__(self, name) if name == "inner" else _raises()},
    "setattr-raises": {"__setattr__": _raises},
    "bool-raises": {"__bool__": _raises},
    "len-raises": {"__len__": _raises},
    "repr-raises": {"__repr__": _raises, "extra_repr": _raises},
    "iter-endless": {"__iter__": lambda self: iter(int, 1)},
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_nothing_raises_whatever_a_module_answers(name: str) -> None:
    model = Odd()
    model.__class__ = type("Strange", (Odd,), ODD[name])  # made as usual, odd from then on
    parameters = list(model.inner.parameters())
    recorder = Recorder(budget=None)
    observer = attach(recorder)
    try:
        optimizer = torch.optim.SGD(parameters, lr=0.01)
        for _ in range(6):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(torch.randn(4, 3)), torch.randn(4, 1)).backward()
            optimizer.step()
    finally:
        detach(observer)
        recorder.close()


class Shy(Tensor):
    """A tensor whose attributes raise."""

    @property
    def shape(self) -> Any:
        raise LookupError("not this one")

    def dim(self) -> int:
        raise LookupError("not this one")


def test_nothing_raises_whatever_an_output_answers() -> None:
    class Gives(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.as_subclass(Shy)

    recorder = Recorder(budget=None)
    observer = attach(recorder)
    try:
        Gives()(torch.randn(3))
        torch.softmax(torch.randn(2, 3).as_subclass(Shy), -1)
        train(nn.Linear(3, 1), 2)
    finally:
        detach(observer)
        recorder.close()


DEEP = """
import sys
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad(); model(torch.ones(1, 2)).sum().backward(); optimizer.step()
def down(n):
    return n if n == 0 else down(n - 1)
depth = 0
try:
    while True:
        down(depth); depth += 1
except RecursionError:
    print(depth)
class Nested(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return x if self.inner is None else self.inner(x)
def nests(n):
    model = None
    for _ in range(n):
        model = Nested(model)
    try:
        model(torch.ones(1))
    except RecursionError:
        return False
    return True
print(max(n for n in range(100, 400, 5) if nests(n)))
"""


def test_a_script_may_call_as_deeply_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(DEEP)
    said = [
        subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False).stdout
        for words in (["deep.py"], ["-m", "traindx", "run", "-q", "--dir", "r", "deep.py"])
    ]
    plain, watched = ([int(word) for word in one.split()] for one in said)
    assert plain[0] <= watched[0] <= 1.3 * plain[0] and plain[1] <= watched[1], (plain, watched)


SAVED = ["mse_loss", "cross_entropy", "softmax", "dropout", "linear", "relu"]


@pytest.mark.parametrize("back", ["while observed", "after"])
def test_what_a_script_saved_on_a_step_that_is_looked_at_and_puts_back_later_is_torchs_own(back: str) -> None:
    before = {name: getattr(nn.functional, name) for name in SAVED}
    backward, kept, x = torch.autograd.backward, {}, torch.randn(4, 3)

    class Saves(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            kept.update({name: getattr(nn.functional, name) for name in SAVED})
            return super().forward(x)

    def put_back() -> None:
        for name, function in kept.items():
            setattr(nn.functional, name, function)
        torch.autograd.backward = own

    recorder = Recorder(budget=None)
    observer = attach(recorder)
    arm(recorder)
    own = torch.autograd.backward
    try:
        train(Saves(3, 1))
        for name in SAVED:  # as a test or a patch of the script's own does
            setattr(nn.functional, name, lambda *args, **kwargs: x)
        torch.autograd.backward = lambda *args, **kwargs: None
        if back == "while observed":
            put_back()
    finally:
        detach(observer)
        recorder.close()
    try:
        if back == "after":
            put_back()
            F = nn.functional  # called once, each finds that nobody listens and gives up its place
            F.mse_loss(x, x), F.cross_entropy(x, x), F.softmax(x, -1), F.dropout(x), F.linear(x, x), F.relu(x)
            torch.autograd.backward(x.sum().requires_grad_())
        assert [name for name in SAVED if getattr(nn.functional, name) is not before[name]] == []
        assert torch.autograd.backward is backward
    finally:
        torch.autograd.backward = backward
        for name, function in before.items():
            setattr(nn.functional, name, function)


PLACES = [(F, "mse_loss"), (F, "silu"), (F, "softplus"), (torch, "tanh"), (torch, "relu"), (torch, "exp"), (torch, "norm")]
VALUES = {f"{owner.__name__}.{name}": getattr(owner, name) for owner, name in PLACES}
GAINS = dict.fromkeys(VALUES.values(), 1.0)


class Holds(nn.Module):
    """A model that holds torch's functions as values, and asks which they are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.act, self.loss, self.table = nn.Linear(3, 1), F.silu, F.mse_loss, GAINS
        self.seen: list[str] = []

    def look(self) -> None:
        now = {f"{owner.__name__}.{name}": getattr(owner, name) for owner, name in PLACES}
        self.seen += [name for name in VALUES if now[name] is not VALUES[name] or now[name] not in self.table]
        pickle.loads(pickle.dumps(list(now.values())))
        assert pickle.loads(pickle.dumps(self.act)) is F.silu and copy.deepcopy(self.act) is F.silu
        torch.save(self, io.BytesIO())

    def forward(self, x: Tensor) -> Tensor:
        self.look()
        return torch.tanh(self.act(self.inner(x)))


def test_a_script_that_holds_torchs_functions_as_values_finds_them_the_same_at_every_moment() -> None:
    model = Holds()
    recorder = Recorder(budget=None)
    observer = attach(recorder)
    arm(recorder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        for step in range(40):
            out = model(torch.randn(4, 3))
            model.look()
            optimizer.zero_grad()
            F.mse_loss(out, torch.randn(4, 1)).backward()
            model.look()
            optimizer.step()
    finally:
        detach(observer)
        recorder.close()
    assert model.seen == [] and not recorder.failures
    assert len(recorder.sink.run()["loss/train"]) == 40


def test_a_compiled_function_that_nobody_holds_has_a_wrapper_that_is_equal_to_it_and_copied_as_it() -> None:
    own = torch.log
    recorder = Recorder(budget=None)
    observer = attach(recorder)
    arm(recorder)
    try:
        TAPE.on()
        assert torch.log is not own
        assert torch.log == own and own == torch.log and {own: 1}[torch.log] == 1
        assert copy.deepcopy(torch.log) is own
        kept = pickle.dumps(torch.log)
    finally:
        detach(observer)
        recorder.close()
    assert pickle.loads(kept) is own is torch.log


CLOSES = """
import os, time, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    if step == 4:
        os.closerange(3, 256)  # as a program does that becomes a daemon
        mine = [os.open(f"mine-{k}", os.O_RDWR | os.O_CREAT) for k in range(20)]
    optimizer.zero_grad(); model(torch.ones(1, 2)).sum().backward(); optimizer.step()
    time.sleep(0.25)
"""


def test_nothing_of_ours_is_written_into_files_that_got_the_number_of_a_closed_one(tmp_path: Path) -> None:
    (tmp_path / "closes.py").write_text(CLOSES)
    words = [sys.executable, "-m", "traindx", "run", "-q", "--dir", "r", "closes.py"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "TRAINDX_LIVE": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert [p.name for p in tmp_path.glob("mine-*") if p.stat().st_size] == []
    assert len(api.load(tmp_path / "r")[0].series("loss/train")) == 12  # and nothing is lost


ERRORS = """
import sys, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad(); model(torch.ones(1, 2)).sum().backward(); optimizer.step()
class Leaves(Exception):
    def __str__(self):
        sys.exit(9)
class Raises(Exception):
    def __str__(self):
        raise RuntimeError
raise {"long": ValueError("=a" * 3_000_000), "leaves": Leaves(), "raises": Raises()}[sys.argv[1]]
"""


@pytest.mark.parametrize("kind", ["long", "leaves", "raises"])
def test_whatever_an_error_says_the_program_ends_as_it_would(tmp_path: Path, kind: str) -> None:
    (tmp_path / "errs.py").write_text(ERRORS)
    words = [sys.executable, "-m", "traindx", "run", "--dir", "r", "errs.py", kind]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1 and "the record is in" in done.stderr, done.stderr[-500:]
