"""Runs that break: what is named, and what you are told to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import traindx
from traindx.report import issues
from traindx.run import Event, Run

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def watched(model: nn.Module, loss_fn: Loss, lr: float, folder: Path, steps: int = 60, scale: float = 1.0) -> Any:
    """A few steps on a small separable problem, ended at the first loss that is not finite."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    rule = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
    with traindx.watch(model, optimizer, dir=folder) as dx:
        for step in range(steps):
            x = torch.randn(64, 16, generator=torch.Generator().manual_seed(step)) * scale
            optimizer.zero_grad()
            loss = loss_fn(model(x), (x @ rule).argmax(1))
            loss.backward()
            optimizer.step()
            if not torch.isfinite(loss):
                break
    return dx.diagnosis


class ByHand(nn.Module):
    """A softmax from raw exponentials."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(40 * self.body(x))
        return e / e.sum(-1, keepdim=True)


class Kept(ByHand):
    """A softmax that is stable, before a logarithm that is not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(40 * self.body(x), -1)


def by_hand(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -torch.log(p[torch.arange(len(y)), y]).mean()


class Hidden(nn.Module):
    """A division by a length of zero, hidden at once."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(16, 8, bias=False), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.body(x)
        return self.head(torch.nan_to_num(z / z.norm(dim=1, keepdim=True)))


def test_a_hidden_nan_is_told_by_its_operation_and_not_by_the_weights_that_it_broke(tmp_path: Path) -> None:
    found = watched(Hidden(), nn.CrossEntropyLoss(), 0.1, tmp_path, steps=20, scale=0.0)
    assert "the backward of div" in found.verdict_.why
    assert any("clamp(min=" in issue.do for issue in issues.issues(found)[:1])


@pytest.mark.parametrize(("make", "op", "stable"), [(ByHand, "exp", "logsumexp"), (Kept, "log", "cross_entropy")])
def test_an_unstable_formula_is_named_with_the_stable_call_also_after_a_large_step(
    make: type[nn.Module], op: str, stable: str, tmp_path: Path
) -> None:
    for lr in (0.1, 0.05):  # steps that move a weight by several times its size
        found = watched(make(), by_hand, lr, tmp_path / str(lr))
        (numr,) = [f for f in found.findings if f.code == "NUMR001"]
        assert numr.variant == "origin" and f"{op} at" in numr.message and stable in numr.fix
        assert any("test_breaks.py" in w for w in numr.where)
        assert found.causes[0].cause.name == "unstable-operation"


def test_the_fused_loss_on_the_same_net_is_no_unstable_operation(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    found = watched(model, nn.functional.cross_entropy, 0.5, tmp_path)
    assert "NUMR001" not in {f.code for f in found.findings}


def test_a_rate_that_is_too_high_is_not_answered_with_a_norm_from_after_the_explosion(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    found = watched(model, lambda o, y: nn.functional.mse_loss(o, 10.0 * nn.functional.one_hot(y, 4)), 2.0, tmp_path, scale=3.0)
    norms = found.run.series("grad_norm").finite().values
    assert norms.max() > 1e6 * norms[0]
    told = " ".join([f.fix for f in found.findings] + [c.prescription for c in found.causes[:3]])
    assert "recurrent" not in told and "sequences" not in told
    for finding in found.findings:
        if finding.code in ("GRAD002", "GRAD003"):
            assert finding.fix.startswith("Divide the learning rate by 10") and finding.facts.get("clip", 0) < 100 * norms[0]


@pytest.mark.parametrize("lr", [2.0, 2.5, 3.0])
def test_gradients_that_overflow_after_a_huge_step_are_a_rate_too_high_and_no_unstable_operation(
    lr: float, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    found = watched(model, lambda o, y: nn.functional.mse_loss(o, 10.0 * nn.functional.one_hot(y, 4)), lr, tmp_path, scale=3.0)
    assert found.causes[0].cause.name == "lr-too-high" and found.causes[0].probability > 0.9


def exploded(norms: np.ndarray, **facts: Any) -> Run:
    """A run whose loss hardly moves until it breaks, with these gradient norms before."""
    n = len(norms)
    loss = 2.0 + 0.1 * np.sin(np.arange(n + 3))
    loss[n:] = np.nan
    at = n
    run = Run.of({"loss/train": loss, "grad_norm": np.r_[norms, [np.nan] * 3], "lr": np.full(n + 3, 0.01)})
    event = Event(at, "nonfinite", {"what": "loss", "names": ["loss"], "value": "nan", "when": "before"})
    return run.with_(facts={"watched": ["nonfinite"], **facts}, events=(event,))


def test_norms_that_grew_for_thirty_steps_are_an_explosion_and_flat_norms_are_not() -> None:
    rng = np.random.default_rng(0)
    calm = np.exp(rng.normal(0, 0.2, 120))
    grown = np.r_[calm[:90], calm[90:] * np.geomspace(1, 1e30, 30)]
    sick = traindx.diagnose(exploded(grown, **{"model.recall": {"rnn": {"kind": "RNN", "length": 40}}}))
    (numr,) = [f for f in sick.findings if f.code == "NUMR001"]
    assert numr.variant == "norms"
    assert sick.causes[0].cause.name == "exploding-gradients"
    assert "shorter sequences for rnn" in sick.causes[0].prescription
    (grad,) = [f for f in sick.findings if f.code == "GRAD002"]
    assert grad.facts["clip"] < 10
    sudden = traindx.diagnose(exploded(calm))
    assert [f.variant for f in sudden.findings if f.code == "NUMR001"] == ["sudden"]


@pytest.mark.parametrize("form", ["setting", "column"])
def test_the_share_of_clipped_steps_is_read_from_a_log(form: str) -> None:
    rng = np.random.default_rng(0)
    n = 400
    loss = 2.3 * np.exp(-np.arange(n) / 150) + 0.5 + rng.normal(0, 0.03, n)

    def told(norm: np.ndarray, limit: float) -> tuple[str, list[str]]:
        numbers = {
            "loss": loss.tolist(),
            "grad_norm": norm.tolist(),
            "max_grad_norm": limit if form == "setting" else [limit] * n,
        }
        d = traindx.diagnose(numbers)
        (outcome,) = [o for o in d.outcomes if o.code == "OPTM006"]
        return outcome.status.value, [f.message for f in outcome.findings]

    norm = np.exp(rng.normal(np.log(6), 0.3, n))
    _, (always,) = told(norm, 1.0)
    assert always.startswith(f"{np.mean(norm > 1.0):.0%} of the updates")
    assert told(norm, 15.0)[0] == "clear"
    _, (never,) = told(norm, 500.0)
    assert "never acted" in never
    assert told(np.minimum(norm, 1.0), 1.0)[0] == "blind"  # taken after clipping: what was before is not known


def test_the_rate_to_lower_is_the_one_that_broke_the_run_and_not_where_its_warm_up_ended(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)), torch.randn(64, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    broke = 0.0
    with traindx.watch(model, optimizer, dir=tmp_path) as dx:
        for _ in range(60):
            optimizer.param_groups[0]["lr"] *= 1.1
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), 10 * x.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
            broke = broke or (0.0 if torch.isfinite(loss) else optimizer.param_groups[0]["lr"])
    told = issues.issues(dx.diagnosis)[0].do
    assert f"from {broke:.3g} to {broke / 10:.3g}" in told
