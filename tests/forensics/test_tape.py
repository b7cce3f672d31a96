"""Hearing the calls of a loss changes nothing: which way torch takes, how often a wrapper of the script's is entered."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from probes.conftest import observing
from traindx.forensics.arm import arm
from traindx.forensics.tape import TAPE

STEPS = 4


def both(train: Callable[[], list[Any]]) -> tuple[list[Any], list[Any]]:
    """What a program gives bare, and with the forensics armed."""
    bare = train()
    with observing() as seen:
        arm(seen.recorder)
        watched = train()
    return bare, watched


def test_a_frozen_teacher_keeps_the_fast_way_of_attention() -> None:
    fast: list[bool] = []
    own = torch._transformer_encoder_layer_fwd

    def train() -> list[Any]:
        torch.manual_seed(0)
        fast.clear()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        teacher = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        student = nn.Linear(16, 16)
        opt = torch.optim.SGD(student.parameters(), lr=0.1)
        for _ in range(STEPS):
            x = torch.randn(4, 6, 16)
            out = student(x)
            with torch.no_grad():
                target = teacher(x)
            loss = F.mse_loss(out, target)
            opt.zero_grad()
            loss.backward()
            opt.step()
        return [p.detach().clone() for p in student.parameters()] + [len(fast)]

    def counted(*args: Any, **kwargs: Any) -> Any:
        fast.append(True)
        return own(*args, **kwargs)

    torch._transformer_encoder_layer_fwd = counted
    try:
        bare, watched = both(train)
    finally:
        torch._transformer_encoder_layer_fwd = own
    assert bare[-1] == watched[-1] == 2 * STEPS
    assert all(torch.equal(a, b) for a, b in zip(bare[:-1], watched[:-1], strict=True))


@pytest.mark.parametrize("name", ["cross_entropy", "mse_loss", "relu", "softmax", "log_softmax", "normalize", "one_hot"])
def test_a_wrapper_of_the_script_s_own_is_entered_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []

    def train() -> list[Any]:
        torch.manual_seed(0)
        entered.clear()
        original = getattr(F, name)

        def own(*args: Any, **kwargs: Any) -> Any:
            entered.append(name)
            out = original(*args, **kwargs)
            return out * 1.25 if out.is_floating_point() else out

        net = nn.Linear(6, 5)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        with monkeypatch.context() as patch:
            patch.setattr(F, name, own)
            for _ in range(STEPS):
                out, y = net(torch.randn(8, 6)), torch.randint(0, 5, (8,))
                loss = {
                    "cross_entropy": lambda out, y: F.cross_entropy(out, y),
                    "mse_loss": lambda out, y: F.mse_loss(out, torch.ones_like(out)),
                    "relu": lambda out, y: F.relu(out).sum(),
                    "softmax": lambda out, y: F.softmax(out, -1).square().sum(),
                    "log_softmax": lambda out, y: -F.log_softmax(out, -1)[:, 0].mean(),
                    "normalize": lambda out, y: F.normalize(out)[:, 0].sum(),
                    "one_hot": lambda out, y: (out * F.one_hot(y, 5)).sum(),
                }[name](out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
        return [*(p.detach().clone() for p in net.parameters()), len(entered)]

    bare, watched = both(train)
    assert bare[-1] == watched[-1] == STEPS
    assert all(torch.equal(a, b) for a, b in zip(bare[:-1], watched[:-1], strict=True))


class Counts(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_modes_of_the_script_s_own_see_no_call_of_ours() -> None:
    def train() -> list[Any]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        opt = torch.optim.Adam(net.parameters())
        flops, calls = FlopCounterMode(display=False), Counts()
        with flops, calls:
            for _ in range(STEPS):
                loss = ((net(torch.randn(8, 6)) - 1) ** 2).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
        return [flops.get_total_flops(), calls.calls]

    bare, watched = both(train)
    assert bare == watched


def test_the_tape_hears_operators_methods_functions_and_attributes_once() -> None:
    heard: list[str] = []
    assert TAPE.open(lambda func, args, kwargs, out, caller: heard.append(getattr(func, "__name__", "")))

    class Holds:
        function = torch.tanh

    try:
        Holds().function(torch.ones(1))
        a = torch.ones(2, 3)
        (((2 - a) / 3 + 1) ** 2).sum()
        torch.log(a).T.clamp(min=0)
        F.gaussian_nll_loss(a, a, a)
    finally:
        TAPE.reset()
    assert heard == ["tanh", "__rsub__", "div", "add", "pow", "sum", "log", "__get__", "clamp", "gaussian_nll_loss"]
    assert not [
        n for n, v in vars(Tensor).items() if getattr(getattr(v, "__code__", None), "co_filename", "").startswith("<traindx")
    ]


class Late(Exception):
    """What the script's own handler raises."""


def test_what_the_script_s_signal_handler_raises_reaches_the_script() -> None:
    def late(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGUSR1, late)
    try:
        with observing() as seen:
            net = nn.Linear(4, 1)
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            own = seen.recorder.tell

            def tell(moment: str, *args: Any, **kwargs: Any) -> Any:
                if moment == "on_backward":
                    signal.raise_signal(signal.SIGUSR1)
                return own(moment, *args, **kwargs)

            seen.recorder.tell = tell  # type: ignore[method-assign]
            raised = 0
            for _ in range(STEPS):
                try:
                    opt.zero_grad()
                    net(torch.randn(3, 4)).sum().backward()
                    opt.step()
                except Late:
                    raised += 1
            assert raised == STEPS
    finally:
        signal.signal(signal.SIGUSR1, before)


class Odd(nn.Linear):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("modules are not compared")

    __hash__ = None  # type: ignore[assignment]


class Closed(nn.Linear):
    def modules(self) -> Any:
        raise RuntimeError("not to be walked")


@pytest.mark.parametrize("kind", [Odd, Closed])
def test_a_module_that_cannot_be_compared_hashed_or_walked_is_called_all_the_same(kind: type[nn.Module]) -> None:
    net = kind(4, 1)
    recorder_failures: list[Any] = []
    opt = torch.optim.SGD([p for p in net._parameters.values() if p is not None], lr=0.1)
    try:
        with observing() as seen:
            recorder_failures = seen.recorder.failures
            for _ in range(STEPS):
                opt.zero_grad()
                net(torch.randn(3, 4)).sum().backward()
                opt.step()
    except AssertionError:
        assert recorder_failures  # ours to keep


def test_a_wrapper_that_a_script_found_and_put_back_later_calls_nobody_in_circles() -> None:
    original = F.mse_loss
    try:
        with observing():
            TAPE.on()
            kept = F.mse_loss
        F.mse_loss = kept
        with observing() as seen:
            arm(seen.recorder)
            TAPE.on()
            assert F.mse_loss(torch.ones(2), torch.zeros(2)) == 1
    finally:
        TAPE.reset()
        F.mse_loss = original
