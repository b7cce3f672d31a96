"""A prescription tried on a fork, and applied to the task itself."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
from torch import nn

import traindx
from traindx.cause import catalogue as causes
from traindx.errors import UsageError
from traindx.trial import catalogue
from traindx.trials import prescription
from traindx.trials.prescription import applied, change_of, slower_than_now
from traindx.trials.task import Task, fingerprint
from trials.tasks import HEALTHY, digits, loaders, mlp, task


def fixed(on: Task, change: dict[str, Any] | None = None, **limits: Any) -> Any:
    return catalogue()["fix"].run(on, **({"change": change} if change else {}), **{"horizons": (30,), "orders": 4, **limits})


EVERY: dict[str, Any] = {
    "lr": [0.1, 10.0, "peak"],
    "warmup": [0.03],
    "schedule": ["anneal", "relaid"],
    "clip": ["p95", 1.0],
    "weight_decay": [10.0, "on", "off-gains"],
    "beta2": [0.95],
    "eps": [1e-12],
    "momentum": [0.5],
    "regularisers": ["off"],
    "mode": ["train"],
    "init": ["kaiming", "xavier"],
    "batch": [4],
    "precision": ["bf16", "fp32-master"],
    "normalisation": ["inputs", "recomputed"],
}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, values in EVERY.items() for v in values])
def test_every_prescription_can_be_tried_and_leaves_no_trace(key: str, value: Any) -> None:
    torch.manual_seed(0)
    on = HEALTHY["conv and batch norm"]()
    before = fingerprint(on)
    found = fixed(on, {key: value}, horizons=(4,), orders=3)
    assert found.result in ("pass", "fail", "undecided") and "short race" in found.reason
    assert fingerprint(on) == before


def test_every_cause_with_a_change_speaks_words_a_fork_knows() -> None:
    on = task(mlp())
    for cause in causes().values():
        for key, value in cause.change.items():
            if value in ("scaled", "divided", "targets"):  # these need a number of the user's, or a squared loss
                continue
            applied({key: value}, on)


def test_a_rate_that_is_a_thousand_times_too_low_is_confirmed_as_the_fault() -> None:
    torch.manual_seed(0)
    on = task(mlp(), lr=1e-6)
    found = fixed(on, {"lr": 1000.0})
    assert found.result == "pass" and found.reason.startswith("prescription confirmed") and "short" in found.reason
    assert found.answer["word"] == "prescription confirmed"


def test_a_rate_that_breaks_the_run_is_cured_by_its_cause() -> None:
    torch.manual_seed(0)
    x, y = digits()
    train, val = loaders(x, y)
    model = mlp()
    on = Task(model, nn.CrossEntropyLoss(), train, val, torch.optim.SGD(model.parameters(), 30.0))
    found = fixed(on, cause="lr-too-high")
    assert found.result == "pass" and found.answer["change"] == dict(causes()["lr-too-high"].change)


def test_a_harmful_prescription_is_not_confirmed() -> None:
    torch.manual_seed(0)
    found = fixed(task(mlp(), lr=1e-2), {"lr": 1e-4})
    assert found.result == "fail" and found.reason.startswith("prescription not confirmed")


def test_nothing_changed_is_undecided() -> None:
    torch.manual_seed(0)
    assert fixed(task(mlp()), {"weight_decay": 1.0}).result == "undecided"


def test_a_small_lead_of_a_slower_arm_proves_nothing() -> None:
    assert slower_than_now({"lr": 0.1}) and slower_than_now({"schedule": "anneal"}) and not slower_than_now({"lr": 3.0})


def test_targets_far_from_zero_are_cured_by_normalising_them() -> None:
    torch.manual_seed(0)
    x = torch.randn(400, 6)
    on = task(nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1)), nn.MSELoss(), x, 1e3 + 1e3 * x[:, :1])
    assert fixed(on, {"normalisation": "targets"}).result == "pass"


def test_eval_mode_is_kept_in_the_arm_as_it_is() -> None:
    torch.manual_seed(0)
    on = HEALTHY["conv and batch norm"]()
    on.model.eval()
    for m in on.model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_var.fill_(1e4)  # in eval mode next to nothing gets through
    assert fixed(on, {"mode": "train"}, horizons=(100,)).result == "pass"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "a prescription is a dict"),
        ("no-such", "no cause"),
        ({"colour": 1}, "cannot be tried"),
        ("metric-bug", "cannot be"),
    ],
)
def test_what_cannot_be_tried_says_so(given: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        applied(change_of(given), task(mlp()))


def test_apply_changes_the_task_in_place_and_says_what() -> None:
    on = task(mlp())
    assert on.optimizer is not None
    said = traindx.apply({"lr": 0.1, "beta2": 0.95, "clip": 1.0}, on)
    group = on.optimizer.param_groups[0]
    assert group["lr"] == pytest.approx(1e-4) and group["betas"][1] == 0.95
    assert any("lr of group 0" in s for s in said) and any("clip" in s for s in said)
    with pytest.raises(UsageError, match="in your loop"):
        traindx.apply({"precision": "bf16"}, on)


def test_apply_takes_a_diagnosis() -> None:
    on = task(mlp())
    assert traindx.apply(causes()["clipping-misset"], on)


def test_a_change_is_told_with_the_values_it_leads_to() -> None:
    assert doctest.testmod(prescription).failed == 0
    found = catalogue()["fix"].run(HEALTHY["mlp"](), change={"lr": 3.0}, orders=3, horizons=(5,))
    assert "learning rate 0.001 → 0.003" in found.reason and "lr 3.0" not in found.reason
