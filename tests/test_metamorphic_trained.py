"""Metamorphic relations that need a training (reliability part 4.5): MR-06, MR-07, MR-16, MR-17, MR-18.

A small classifier is trained twice under all probes, plainly and in another way that changes nothing in what it learns: hidden
units in another order, identities and idle branches added, small batches accumulated, mixed precision and loss scales,
checkpointing, fused optimizers, a compiled model. Signals must be the same up to rounding, and so must the diagnosis of a sound
program and of one that never clears its gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.probes.watched import watched
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from traindx.diagnosis import examine
from traindx.finding import Severity, Status
from traindx.probes.drive.recorder import every_probe
from traindx.run import Run

SHORT, LONG = 24, 200
Step = Callable[[nn.Module, Any, torch.Tensor, torch.Tensor], None]
# quantiles, zeros and the kurtosis of a tensor are read off a sample of its entries at fixed places
SAMPLED = ("grad_q", "weight_q", "grad_zero", "weight_kurtosis")
# what a relation may change: how the step was taken and how long it took
LOOP = ("time/", "mem/", "amp/", "loop/forwards", "loop/backwards")


@cache
def data() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    x = torch.randn(512, 20, generator=g)
    return x, (x @ torch.randn(20, 4, generator=g) + 0.5 * torch.randn(512, 4, generator=g)).argmax(1)


def net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def plain(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    F.cross_entropy(model(x), y).backward()


def accumulated(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    for xs, ys in zip(x.chunk(8), y.chunk(8)):
        (F.cross_entropy(model(xs), ys) / 8).backward()


def autocast(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    loss.backward()


def trained(
    model: nn.Module,
    backward: Step = plain,
    *,
    steps: int = SHORT,
    sick: bool = False,
    scale: int = 0,
    wrap: Callable[[nn.Module], Any] = lambda m: m,
    **optimizer: Any,
) -> Run:
    """The run of a training loop under all probes; `sick` never clears the gradients."""
    x, y = data()

    def loop() -> None:
        opt = torch.optim.Adam(model.parameters(), 1e-2, **optimizer)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**scale, enabled=scale > 0)
        whole = wrap(model)
        draw = torch.Generator().manual_seed(7)
        for i in range(steps):
            at = torch.randint(0, 448, (32,), generator=draw)
            if not sick:
                opt.zero_grad()
            if scale:
                scaler.scale(F.cross_entropy(whole(x[at]), y[at])).backward()
            else:
                backward(whole, opt, x[at], y[at])
            scaler.step(opt)
            scaler.update()
            if i % 10 == 9:
                whole.eval()
                with torch.no_grad():
                    F.cross_entropy(whole(x[448:]), y[448:])
                whole.train()

    return watched(loop, *every_probe()[0])


@cache
def reference(sick: bool = False, steps: int = SHORT) -> Run:
    return trained(net(), sick=sick, steps=steps)


def moved(a: Run, b: Run, but: tuple[str, ...] = LOOP) -> dict[str, float]:
    """Signals of both runs that differ by more than a thousandth of their range."""
    out = {}
    for name in set(a.signals) & set(b.signals):
        u, v = a[name].values, b[name].values
        if name.startswith(but) or u.shape != v.shape or not np.isfinite(u).any():
            continue
        gap = float(np.nanmax(np.abs(u - v)) / (np.nanmax(np.abs(u)) + 1e-12))
        if gap > 1e-3 or not np.array_equal(np.isnan(u), np.isnan(v)):
            out[name] = gap
    return out


def shared(a: Run, b: Run) -> float:
    """The share of a's signals that b has in the same shape; what is timed depends on the machine."""
    names = [n for n in a.signals if not n.startswith(LOOP)]
    return float(np.mean([n in b and a[n].values.shape == b[n].values.shape for n in names]))


def alarms(run: Run) -> dict[str, Severity]:
    """The worst severity of each rule that says more than a remark; how long steps take is this machine's affair."""
    out: dict[str, Severity] = {}
    for outcome in examine(run):
        assert outcome.status is not Status.BROKEN, (outcome.code, outcome.reason)
        worst = max((f.severity for f in outcome.findings), default=Severity.INFO)
        if worst > Severity.INFO and not outcome.code.startswith("PERF"):
            out[outcome.code] = worst
    return out


def permuted() -> nn.Sequential:
    """The same function with the hidden units in another order."""
    model = net()
    order = torch.randperm(32, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        model[0].weight.copy_(model[0].weight[order])
        model[0].bias.copy_(model[0].bias[order])
        model[2].weight.copy_(model[2].weight[:, order])
    return model


def with_identities() -> nn.Sequential:
    a, b, c, d, e = net()
    return nn.Sequential(a, nn.Identity(), b, c, nn.Identity(), d, e, nn.Identity())


class Branched(nn.Module):
    """A second head that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.aside = nn.Linear(20, 8)
        self.body = net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.aside(x)
        return self.body(x)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return self.body(x)
        return self.body[2:](checkpoint(self.body[:2], x, use_reentrant=False))


VARIANTS: dict[str, Callable[..., Run]] = {
    "permuted units (MR-06)": lambda **k: trained(permuted(), **k),
    "identity layers (MR-07)": lambda **k: trained(with_identities(), **k),
    "accumulation over eight (MR-16)": lambda **k: trained(net(), accumulated, **k),
    "bfloat16 autocast (MR-17)": lambda **k: trained(net(), autocast, **k),
    "loss scale 2^8 (MR-17)": lambda **k: trained(net(), scale=8, **k),
    "loss scale 2^24 (MR-17)": lambda **k: trained(net(), scale=24, **k),
    "checkpointing (MR-18)": lambda **k: trained(Checkpointed(), **k),
    "fused optimizer (MR-18)": lambda **k: trained(net(), fused=True, **k),
    "one tensor at a time (MR-18)": lambda **k: trained(net(), foreach=False, **k),
    "compiled (MR-18)": lambda **k: trained(net(), wrap=lambda m: torch.compile(m, backend="eager"), **k),
}


@pytest.mark.parametrize("name", ["permuted units (MR-06)", "loss scale 2^24 (MR-17)", "fused optimizer (MR-18)"])
def test_signals_are_the_same_up_to_rounding(name: str) -> None:
    run = VARIANTS[name]()
    assert shared(reference(), run) == 1.0
    assert not moved(reference(), run, but=(*LOOP, *SAMPLED) if "units" in name else LOOP)


def test_an_accumulated_batch_is_one_step_with_the_gradient_and_loss_of_the_whole() -> None:
    run = VARIANTS["accumulation over eight (MR-16)"]()
    told = ("loss/train", "loss/val", "grad_norm", "grad_norm/param", "update_ratio", "weight_norm", "lr")
    assert {*told} <= set(run.signals)
    assert not {k: v for k, v in moved(reference(), run).items() if k in told}
    assert len(run["loss/train"]) == SHORT


def test_checkpointed_forwards_are_not_counted_twice() -> None:
    run = VARIANTS["checkpointing (MR-18)"]()
    told = ("loss/train", "grad_norm", "update_ratio", "batch/size", "batch/repeat", "accuracy/train")
    assert {*told} <= set(run.signals)
    assert not {k: v for k, v in moved(reference(), run).items() if k in told}


@pytest.mark.slow
@pytest.mark.parametrize("sick", [False, True], ids=["sound", "sick"])
@pytest.mark.parametrize("name", list(VARIANTS))
def test_the_diagnosis_is_the_same(name: str, sick: bool) -> None:
    plainly = alarms(reference(sick, LONG))
    assert ("WIRE004" in plainly) is sick and (sick or not plainly)
    said = alarms(VARIANTS[name](sick=sick, steps=LONG))
    assert ("WIRE004" in said) is sick
    if not sick:
        assert not said


@pytest.mark.slow
@pytest.mark.parametrize("sick", [False, True], ids=["sound", "sick"])
def test_an_idle_branch_adds_at_most_that_it_is_idle(sick: bool) -> None:
    plainly = alarms(reference(sick, LONG))
    said = alarms(trained(Branched(), sick=sick, steps=LONG))
    idle = {"GRAD004", "WIRE001", "WIRE002", "WIRE003"}
    assert set(plainly) - idle == set(said) - idle
    assert idle & set(said), "parameters that get no gradient are named"
