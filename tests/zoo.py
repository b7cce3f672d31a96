"""Made-up runs with known truth: odd but healthy ones that no rule may take for sick, and sick ones with their codes.

Every run is made of plain numpy in milliseconds. `HEALTHY[name]()` and `SICK[name]()` build one; `SICK_CODES[name]` lists the
rules that must find it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from runs import a_run, noise
from traindx.run import Run, Series

HEALTHY: dict[str, Callable[[], Run]] = {}
SICK: dict[str, Callable[[], Run]] = {}
SICK_CODES: dict[str, tuple[str, ...]] = {}
CE10 = {"loss.kind": "ce", "loss.classes": 10, "loss.reduction": "mean", "step_unit": "step"}


def healthy(build: Callable[[], Run]) -> Callable[[], Run]:
    HEALTHY[build.__name__] = build
    return build


def sick(*codes: str) -> Callable[[Callable[[], Run]], Callable[[], Run]]:
    def add(build: Callable[[], Run]) -> Callable[[], Run]:
        SICK[build.__name__] = build
        SICK_CODES[build.__name__] = codes
        return build

    return add


def falling(n: int, start: float = 2.3, floor: float = 0.3, knee: float = 20, power: float = 0.7) -> np.ndarray:
    return floor + (start - floor) * (1 + np.arange(n) / knee) ** -power


def evaluated(train: np.ndarray, val: np.ndarray, every: int, **more: object) -> Run:
    """A run with a loss per step and an evaluation every `every` steps."""
    at = np.arange(1, len(val) + 1) * every - 1
    signals = {"loss/train": train, "loss/val": Series(at, val)}
    return a_run(signals, **more)  # type: ignore[arg-type]


# -- healthy ------------------------------------------------------------------------------------------


@healthy
def plain() -> Run:
    n = 2000
    val = falling(20, 1.2, 0.4, 2) + noise(20, 0.01, 3)
    return evaluated(falling(n) + noise(n, 0.05), val, 100, facts=CE10)


@healthy
def heavy_tailed_batches() -> Run:
    rng = np.random.default_rng(5)
    n = 3000
    return a_run(loss__train=falling(n, 2.3, 0.8) * (1 + 0.15 * rng.standard_t(3, n)).clip(0.05), facts=CE10)


@healthy
def warm_restarts() -> Run:
    n, cycle = 4000, 800
    phase = np.arange(n) % cycle / cycle
    rate = 0.05 * (1 + np.cos(math.pi * phase)) + 1e-4
    loss = falling(n, 2.3, 0.3) + 0.35 * rate / 0.1 + noise(n, 0.04)
    at = np.arange(1, 41) * 100 - 1
    val = falling(40, 1.4, 0.5, 4) + 0.3 * rate[at] / 0.1 + noise(40, 0.02, 1)
    return a_run({"loss/train": loss, "lr": rate, "loss/val": Series(at, val)}, facts=CE10)


@healthy
def cyclic_rate() -> Run:
    n = 3000
    rate = 1e-3 * (1 + 9 * np.abs((np.arange(n) / 300) % 2 - 1))
    return a_run(loss__train=falling(n) + 40 * rate * falling(n, 1, 0.3) + noise(n, 0.03), lr=rate, facts=CE10)


@healthy
def step_decay() -> Run:
    n = 3000
    rate = np.where(np.arange(n) < 1000, 0.1, np.where(np.arange(n) < 2000, 0.01, 0.001))
    loss = falling(n, 2.3, 0.9) - 0.4 * (rate < 0.1) * (1 - np.exp(-np.maximum(0, np.arange(n) - 1000) / 30)) + noise(n, 0.04)
    return a_run(loss__train=loss, lr=rate, facts=CE10)


@healthy
def one_cycle() -> Run:
    n = 2000
    t = np.arange(n) / n
    rate = np.where(t < 0.3, 0.004 + 0.096 * t / 0.3, 0.1 * (1 + np.cos(math.pi * (t - 0.3) / 0.7)) / 2)
    loss = falling(n, 2.3, 0.2) + 2.0 * rate * np.exp(-t) + noise(n, 0.04)
    return a_run(loss__train=loss, lr=rate, facts={**CE10, "budget.planned_steps": n})


@healthy
def smoothed_labels() -> Run:
    n = 2000
    return a_run(loss__train=falling(n, 2.3, 0.53, 15, 1.5) + np.abs(noise(n, 0.01)), facts={**CE10, "loss.smoothing": 0.1})


@healthy
def negative_losses() -> Run:
    n = 2000
    loss = falling(n, 2.0, -3.0) + noise(n, 0.1)
    return evaluated(loss, falling(20, 0.5, -2.8, 2) + noise(20, 0.05, 1), 100, facts={"loss.kind": "unknown"})


@healthy
def two_players() -> Run:
    n = 2000
    loss = 1.0 + 0.6 * np.sin(np.arange(n) / 40) + np.linspace(0, 1.5, n) + noise(n, 0.2)
    return a_run(loss__train=loss, facts={"adversarial": True, "loss.kind": "bce_logits"})


@healthy
def policy() -> Run:
    return a_run(loss__train=noise(1500, 0.3) + np.linspace(0, 2, 1500), facts={"rl": True})


@healthy
def tiny_validation_set() -> Run:
    n = 2000
    val = 0.6 + 0.6 * np.exp(-np.arange(25) / 3) + noise(25, 0.06, 2)
    return evaluated(falling(n, 2.3, 0.4) + noise(n, 0.05), val, 80, facts=CE10)


@healthy
def early_convergence() -> Run:
    n = 2000
    loss = 0.02 + 2.28 * np.exp(-np.arange(n) / 25) + np.abs(noise(n, 0.006))
    accuracy = np.clip(1 - 0.9 * np.exp(-np.arange(n) / 25), 0, 1)
    val = 0.05 + 0.4 * np.exp(-np.arange(20) / 1.5) + noise(20, 0.003, 4)
    return evaluated(loss, val, 100, facts=CE10).with_({"accuracy/train": Series(np.arange(n), accuracy)})


@healthy
def late_drop() -> Run:
    n = 3000
    return a_run(loss__train=1.9 - 1.6 / (1 + np.exp(-(np.arange(n) - 1800) / 120)) + noise(n, 0.05), facts={"loss.kind": "ce"})


@healthy
def harder_data() -> Run:
    n = 3000
    length = np.where(np.arange(n) < 1000, 16, np.where(np.arange(n) < 2000, 32, 64)) + noise(n, 0.5)
    step = np.arange(n)
    jump = 0.8 * np.exp(-np.maximum(0, step - 1000) / 300) * (step >= 1000)
    jump += 0.8 * np.exp(-np.maximum(0, step - 2000) / 300) * (step >= 2000)
    return a_run(loss__train=falling(n) + jump + noise(n, 0.04), batch__length=length, facts=CE10)


@healthy
def fine_tuning_at_the_floor() -> Run:
    n = 800
    loss = 0.42 - 0.02 * np.arange(n) / n + noise(n, 0.05)
    return evaluated(
        loss,
        0.45 - 0.002 * np.arange(8) + noise(8, 0.004),
        100,
        facts={"finetune": True, "loss.kind": "ce", "loss.classes": 1000},
    )


@healthy
def two_digits() -> Run:
    n = 1500
    return a_run(loss__train=np.round(falling(n, 2.3, 0.2) + noise(n, 0.03), 2))


@healthy
def offset() -> Run:
    n = 2000
    return evaluated(1000 + falling(n) + noise(n, 0.05), 1000 + falling(20, 1.2, 0.4, 2) + noise(20, 0.01, 3), 100)


@healthy
def near_zero_with_tail() -> Run:
    rng = np.random.default_rng(7)
    n = 4000
    loss = (0.002 + 1.5 * np.exp(-np.arange(n) / 60)) * np.exp(0.8 * rng.normal(size=n))
    loss[rng.random(n) < 0.004] += 0.06
    return a_run(loss__train=loss, facts=CE10)


@healthy
def still_in_warm_up() -> Run:
    return a_run(
        {"loss/train": Series(np.arange(50) * 10, np.linspace(0.685, 0.64, 50) + noise(50, 0.02))},
        facts={"step_unit": "step"},
    ).with_({"lr": Series(np.arange(50) * 10, np.linspace(0, 2e-5, 50))})


@healthy
def resumed() -> Run:
    n = 2000
    loss = falling(n) + noise(n, 0.05)
    loss[1000:1030] += 0.15 * np.exp(-np.arange(30) / 8)
    run = a_run(loss__train=loss, facts=CE10)
    return run.between(hi=999).then(run.between(lo=1000))


@healthy
def validation_better_than_training() -> Run:
    n = 2000
    return evaluated(falling(n, 2.3, 0.6) + noise(n, 0.08), falling(20, 0.9, 0.35, 2) + noise(20, 0.008, 1), 100, facts=CE10)


def _epochs(n: int, seed: int = 0) -> Run:
    train = falling(n, 1.8, 0.25, 3) + noise(n, 0.01, seed)
    val = falling(n, 1.7, 0.38, 3) + noise(n, 0.012, seed + 1)
    return a_run(loss__train=train, loss__val=val, facts={"step_unit": "epoch"})


for _n in (1, 2, 3, 5, 8, 12, 20, 30, 60, 100):
    HEALTHY[f"epochs_{_n}"] = lambda n=_n: _epochs(n)


@healthy
def fast_early_log() -> Run:
    """Converged within the first record's interval; then flat and fine."""
    loss = np.r_[0.31, 0.12 + noise(59, 0.004)]
    return a_run(
        {"loss/train": Series(np.arange(60) * 100, loss), "accuracy/train": Series(np.arange(60) * 100, np.full(60, 0.97))}
    )


# -- sick ------------------------------------------------------------------------------------------


@sick("LOSS001")
def slow_divergence() -> Run:
    n = 2000
    climb = np.r_[np.zeros(1000), 1.4 * np.arange(1000) / 1000]
    return a_run(loss__train=falling(n) + climb + noise(n, 0.05), facts=CE10)


@sick("LOSS001")
def blow_up() -> Run:
    n = 900
    loss = falling(n) + noise(n, 0.05)
    loss[700:] = 0.5 * np.exp(np.arange(200) / 15)
    return a_run(loss__train=loss, facts=CE10)


@sick("LOSS001")
def ends_in_nan() -> Run:
    loss = falling(800) + noise(800, 0.05)
    loss[700:] = np.nan
    return a_run(loss__train=loss, facts=CE10)


@sick("LOSS001")
def short_blow_up() -> Run:
    return a_run(loss__train=[2.3, 2.4, 2.2, 90.0, 4e3, 7e5, 2e8], facts={"step_unit": "epoch"})


@sick("LOSS002", "LOSS011")
def stuck_at_chance() -> Run:
    return a_run(loss__train=math.log(10) + noise(600, 0.03), facts=CE10)


@sick("LOSS002")
def frozen_log() -> Run:
    return a_run(loss__train=np.full(12, 0.8311), facts={"step_unit": "epoch"})


@sick("LOSS011")
def softmax_twice() -> Run:
    n = 2000
    floor = math.log(math.e + 9) - 1
    return a_run(loss__train=floor + 0.84 * np.exp(-np.arange(n) / 60) + np.abs(noise(n, 0.004)), facts=CE10)


@sick("LOSS003")
def plateau_high() -> Run:
    n = 3000
    loss = 1.1 + 1.2 * np.exp(-np.arange(n) / 80) + noise(n, 0.03)
    return a_run(loss__train=loss, lr=np.full(n, 1e-3), facts={**CE10, "budget.planned_steps": 10_000})


@sick("LOSS008")
def overfits() -> Run:
    n = 4000
    val = 0.9 + 1.0 * np.exp(-np.arange(40) / 4) + 0.03 * np.maximum(0, np.arange(40) - 10) + noise(40, 0.015, 1)
    return evaluated(falling(n, 2.3, 0.02, 60, 1.2) * np.exp(noise(n, 0.2)), val, 100, facts=CE10)


@sick("LOSS008")
def overfits_in_six_evaluations() -> Run:
    train = np.array([1.2, 0.7, 0.4, 0.2, 0.1, 0.05])
    return a_run(loss__train=train, loss__val=[1.0, 0.8, 0.85, 0.97, 1.15, 1.4], facts={"step_unit": "epoch"})


@sick("LOSS006")
def spiky() -> Run:
    n = 3000
    loss = falling(n) + noise(n, 0.03)
    for at in (800, 1300, 1700, 2400):
        loss[at : at + 80] += 1.2 * np.exp(-np.arange(80) / 20)
    return a_run(loss__train=loss, facts=CE10)


@sick("LOSS007")
def one_bad_batch_each_epoch() -> Run:
    n, per = 2400, 200
    loss = falling(n) + noise(n, 0.03)
    loss[57::per] += 3.0
    return a_run(loss__train=loss, facts={**CE10, "data.steps_per_epoch": per})


@sick("LOSS005")
def shaking() -> Run:
    rng = np.random.default_rng(0)
    n = 2400
    spread = np.full(n, 0.5)
    loss = 0.9 + 1.4 * np.exp(-np.arange(n) / 80) + np.sqrt(0.5 / 64) * rng.normal(size=n)
    loss += 0.5 * np.sin(np.arange(n) * 2.2) * rng.uniform(0.5, 1, n)
    signals = {"loss/train": loss, "loss/sample_var": spread, "batch/size": np.full(n, 64.0)}
    return a_run(signals, facts=CE10)


@sick("LOSS012")
def staircase() -> Run:
    per, epochs = 100, 5
    level = np.repeat(2.0 * 0.75 ** np.arange(epochs), per)
    return a_run(loss__train=level + noise(per * epochs, 0.05), epoch=np.arange(per * epochs) / per, facts=CE10)


@sick("LOSS010")
def wild_start() -> Run:
    n = 800
    return a_run(loss__train=2.0 + 30 * np.exp(-np.arange(n) / 300) + noise(n, 0.1), facts=CE10)


@sick("LOSS009")
def fits_nothing() -> Run:
    n = 1000
    loss = math.log(10) + noise(n, 0.02)
    return evaluated(loss, math.log(10) + noise(10, 0.003, 3), 100, facts=CE10)
