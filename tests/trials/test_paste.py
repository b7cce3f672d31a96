"""What is to be pasted runs as it stands, and does what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from traindx.trial import catalogue
from traindx.trials import paste
from trials.tasks import digits, mlp, task


def pasted(code: str, rate: float = 0.1) -> dict[str, Any]:
    """The names of a user's script after the code has run in it, between backward() and step()."""
    torch.manual_seed(0)
    model = mlp()
    x, y = digits(64)
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": rate / 10}], rate, momentum=0.9
    )
    here = {
        "torch": torch, "model": model, "optimizer": optimizer, "loader": [(x, y)] * 3, "loss_fn": nn.CrossEntropyLoss(),
        "total_steps": 100, "steps_per_epoch": 5, "device": "cpu",
        "scheduler": torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0) if "scheduler = " not in code else None,
    }  # fmt: skip
    (100 * nn.CrossEntropyLoss()(model(x), y)).backward()
    exec(code, here)
    return here


def rates(code: str, steps: int = 100) -> np.ndarray:
    """The rates of both groups over a run of `steps` updates."""
    here = pasted(code)
    seen = []
    for _ in range(steps):
        seen.append([g["lr"] for g in here["optimizer"].param_groups])
        here["optimizer"].step()
        here["scheduler"].step()
    return np.array(seen)


@pytest.mark.parametrize("name", paste.every())
def test_what_is_to_be_pasted_runs(name: str) -> None:
    here = pasted(paste.every()[name])
    here["optimizer"].step()
    here["scheduler"].step()
    assert all(np.isfinite(g["lr"]) and g["lr"] > 0 for g in here["optimizer"].param_groups)
    assert all(bool(p.isfinite().all()) for p in here["model"].parameters())


def test_a_warm_up_rises_to_the_rate_and_a_cosine_falls_to_the_floor() -> None:
    seen = rates(paste.warmup_cosine(0.02), 101)
    assert seen[0, 0] == pytest.approx(0.02 / 3) and seen[3, 0] == pytest.approx(0.02) == seen[:, 0].max()
    assert seen[-1, 0] == pytest.approx(0.002) and np.allclose(seen[3, 1], 0.002)  # the second group: a tenth, as before


def test_one_cycle_peaks_and_ends_far_below_its_start() -> None:
    seen = rates(paste.one_cycle(0.02))[:, 0]
    assert seen.max() == pytest.approx(0.02, rel=1e-3) and 25 < int(seen.argmax()) < 35 and seen[-1] < seen[0] / 100


def test_a_cycle_stays_between_its_ends_and_a_restart_starts_again() -> None:
    up = rates(paste.cyclical(1e-3, 1e-2))[:, 0]
    assert up.min() == pytest.approx(1e-3) and up.max() == pytest.approx(1e-2) and int(up.argmax()) == 20
    again = rates(paste.warm_restarts(1e-2))[:, 0]
    assert again[0] == again[50] == pytest.approx(1e-2) and again[49] < 2e-4


def test_clipping_and_scaling_do_what_they_say() -> None:
    here = pasted(paste.clip(0.5))
    assert torch.nn.utils.get_total_norm([p.grad for p in here["model"].parameters()]) == pytest.approx(0.5, rel=1e-4)
    for law, factor in (("linear", 4.0), ("sqrt", 2.0)):
        groups = pasted(paste.scaled(4, law))["optimizer"].param_groups
        assert [g["lr"] for g in groups] == pytest.approx([0.1 * factor, 0.01 * factor])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_loop_in_half_precision_learns_in_fp32_weights(dtype: str) -> None:
    here = pasted(paste.mixed_precision(dtype))
    x, y = here["loader"][0]
    torch.manual_seed(0)
    before = nn.functional.cross_entropy(mlp()(x), y)
    assert nn.functional.cross_entropy(here["model"](x), y) < before
    assert {p.dtype for p in here["model"].parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("clip-threshold", {"batches": 30}),
        ("precision", {}),
        ("lr-range", {"steps": 60}),
        ("lr-scaling", {"orders": 3, "horizons": (8,)}),
    ],
)
def test_what_a_trial_fills_in_runs_too(name: str, limits: dict[str, Any]) -> None:
    torch.manual_seed(0)
    found = catalogue()[name].run(task(mlp()), **limits)
    if name != "lr-scaling" or found.result == "done":
        for code in found.answer["code"].split("\n\n"):
            pasted(code)
