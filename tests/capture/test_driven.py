"""Trials in a script's own loop: what its records are read to say, and one script that is really driven."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capture.test_scripts import traindx
from traindx.capture.driven import DRIVABLE, Ride, Trip, cost, trial
from traindx.errors import UsageError
from traindx.run import Run
from traindx.trial import catalogue
from traindx.trials.floors import Floor

SCRIPT = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out, y):
        p = out.softmax(1)
        ctx.save_for_backward(p, y)
        return -p[torch.arange(len(y)), y].log().mean()
    @staticmethod
    def backward(ctx, g):
        p, y = ctx.saved_tensors
        return g * (p - nn.functional.one_hot(y, p.shape[1])) / len(y), None

x = torch.randn(400, 8)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 20, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=float(sys.argv[1]))
for epoch in range(100):
    for xb, yb in loader:
        loss = Own.apply(model(xb), yb)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    torch.save(model.state_dict(), "model.pt")
"""


def ride(losses: Any, **more: Any) -> Ride:
    values = np.asarray(losses, float)
    run = Run.of({"loss/train": values, "grad_norm": np.ones(len(values))})
    return Ride(run, len(values), **({"optimizer": "Adam", "held": True, "loader": True} | more))


def told(name: str, drive: Any, **limits: Any) -> Any:
    return trial(name, Trip(drive), limits)


def test_one_batch_is_learned_not_learned_or_nobody_knows() -> None:
    floor = (Floor(0.69, "the entropy of the labels", "ignored"),)
    falling = told("overfit", lambda c: ride(np.geomspace(2, 1e-3, 60), levels=floor))
    assert falling.result == "pass" and falling.answer["driven"]
    assert told("overfit", lambda c: ride(np.full(60, 2.0))).result == "fail"
    from_afar = told("overfit", lambda c: ride(np.geomspace(170, 1.9, 60), levels=floor))
    assert from_afar.result != "pass"
    below = told("overfit", lambda c: ride(np.linspace(-2, -90, 60), levels=floor))
    assert below.result == "undecided"
    unknown = told("overfit", lambda c: ride(np.geomspace(2, 1e-3, 60)))
    assert unknown.result == "undecided" and "not known" in unknown.reason
    stuck = told("overfit", lambda c: ride(np.r_[np.linspace(2, 0.69, 40), np.full(20, 0.69)], levels=floor))
    assert stuck.result == "fail" and "entropy of the labels" in stuck.reason
    own = told("overfit", lambda c: ride(np.linspace(2, 0.8, 60)))
    assert own.result == "undecided" and "not known" in own.reason


def test_a_batch_that_cannot_be_held_is_blind() -> None:
    found = told("overfit", lambda c: ride(np.ones(60), held=False, loader=False))
    assert found.result == "refused" and found.answer["blind"]


def test_a_rate_that_is_too_high_is_beaten_by_a_tenth_of_it() -> None:
    def drive(course: dict[str, Any]) -> Ride:
        noise = np.random.default_rng(course["seed"]).normal(0, 0.01, 60)
        return ride((1.0 if course.get("factor") == 0.1 else 3.0) + noise)

    found = told("lr-tenth", drive, orders=3, horizons=(50,))
    assert found.result == "pass" and found.answer["orders_differ"] and "training loss" in found.reason


def test_pairs_that_are_all_the_same_prove_nothing() -> None:
    found = told("lr-tenth", lambda c: ride(np.full(60, 0.5 if "factor" in c else 1.0)), orders=3, horizons=(50,))
    assert found.result == "undecided" and "same" in found.reason


def test_an_arm_that_breaks_counts() -> None:
    def drive(course: dict[str, Any]) -> Ride:
        noise = np.random.default_rng(course["seed"]).normal(0, 0.01, 60)
        return ride(1 + noise) if "clip" in course else ride(np.r_[1 + noise[:20], np.full(40, np.nan)])

    found = told("clip", drive, orders=3, horizons=(50,))
    assert found.result == "pass" and "3 of 3 arms broke as it is, 0 with the change" in found.reason


def test_the_same_course_is_driven_once() -> None:
    driven: list[dict[str, Any]] = []
    trip = Trip(lambda c: driven.append(c) or ride(np.linspace(2, 1, 60)))  # type: ignore[func-returns-value]
    for name in ("lr-tenth", "clip"):
        trial(name, trip, {"orders": 2, "horizons": (50,)})
    assert len(driven) == 6  # two as it is, two each with a change


def test_half_precision_that_breaks_names_the_step() -> None:
    found = told("precision", lambda c: ride(np.r_[np.ones(7), [np.nan if c["precision"] == "bfloat16" else 1.0] * 23]))
    assert found.result == "fail" and "step 7" in found.reason


def test_two_runs_that_differ_are_seeded_from_outside() -> None:
    def drive(course: dict[str, Any]) -> Ride:
        start = course["again"] if course["seed"] is None else 0.0
        return ride(start + np.linspace(2, 1, 20))

    found = told("determinism", drive)
    assert found.result == "fail" and found.answer["seeded_from_outside"] and "a seed is all it lacks" in found.reason


def test_waiting_for_data_is_timed_in_the_scripts_own_loop() -> None:
    found = told("cached-batch", lambda c: ride(np.ones(20), seconds=(0.01 if c.get("fixed") else 0.05,) * 20))
    assert found.result == "fail" and found.answer["speedup"] == pytest.approx(5)


def test_a_loop_without_an_optimizer_has_no_rate_to_set() -> None:
    assert told("lr-range", lambda c: ride(np.ones(60), optimizer="")).answer["blind"]


def test_too_short_a_script_is_told_so() -> None:
    with pytest.raises(UsageError, match="3 updates"):
        told("overfit", lambda c: ride(np.ones(3)))


@pytest.mark.parametrize("name", sorted(DRIVABLE))
def test_every_driven_trial_states_its_cost(name: str) -> None:
    limits = {"change": {"lr": 0.1}} if name == "fix" else {}
    rides, steps = cost(name, limits)
    assert rides >= 1 and steps >= 10 and name in catalogue()


def test_a_script_whose_loss_cannot_be_called_is_driven(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    limits = ("--set", "steps=60", "--set", "rates=[0.03]", "--dir", "record")
    done = traindx("trial", "overfit", "train.py", *limits, "--format", "json", "--", "0.01", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["answer"]["driven"] and answer["answer"]["final"] < 0.2 * answer["answer"]["initial"]
    assert "runs of the script" in done.stderr or "one run of the script" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["record", "train.py"]  # and no checkpoint
    from traindx.record import read

    rates = read(Path(tmp_path / answer["record"])).series("lr").values
    assert np.allclose(rates[:60], 0.03)  # the record has the rate that was set


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lr-range", "precision", "cached-batch", "determinism"])
def test_the_others_are_driven_too(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    done = traindx("trial", name, "train.py", "--format", "json", "--", "0.01", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    want = {"lr-range": "done", "precision": "pass", "cached-batch": "pass", "determinism": "fail"}[name]
    assert answer["result"] == want, answer


@pytest.mark.slow
def test_the_preflight_drives_what_it_cannot_call(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    done = traindx("check", "train.py", "--format", "json", "--", "0.01", cwd=tmp_path)
    items = {i["item"]: i for i in json.loads(done.stdout)["items"]}
    assert items["one batch can be learned by heart"]["result"] == "pass", done.stdout
    assert items["half precision changes nothing"]["result"] == "pass"
