"""How a sweep of learning rates is read, and the race that follows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from traindx.trial import Result
from traindx.trials.check import Item, answered
from traindx.trials.lr_range import read, swept, valley


def test_a_slow_learner_is_read_when_batches_it_never_saw_fell_too() -> None:
    """A slow learner is read when batches it was not trained on fell too; falls among the noise are not enough."""
    steps = np.arange(60)
    rates = np.geomspace(1e-7, 1, 60)
    rng = np.random.default_rng(0)
    curve = 2.5 - 0.5 / (1 + np.exp(-(steps - 40) / 3.0)) + 2.0 * (steps > 54) * (steps - 54) / 6 + rng.normal(0, 0.12, 60)
    level = np.linspace(2.5, 2.0, 6)[:, None] + np.array([0.0, 0.1, -0.1, 0.05])
    assert read(rates, curve, np.full((6, 4), 2.5)).refused
    assert not read(rates, curve, level).refused


def test_the_valley_does_not_depend_on_where_the_sweep_starts() -> None:
    x = np.linspace(-7, 0, 120)
    y = 2.3 - 2 / (1 + np.exp(-(x + 2) * 5)) + np.exp(10 * (x + 0.5))
    low = int(np.argmin(y))
    whole = valley(x[: low + 1], y[: low + 1], 2.0)
    cut = valley(x[40 : low + 1], y[40 : low + 1], 2.0)
    assert whole == pytest.approx(cut, abs=0.05) and -2.5 < whole < -1.0


def test_a_sweep_that_ends_while_the_loss_falls_goes_on_beyond() -> None:
    bounds: list[tuple[float, float]] = []

    def sweep(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        bounds.append((float(rates[0]), float(rates[-1])))
        x = np.log10(rates)
        noise = np.random.default_rng(0).normal(0, 0.005, len(x))
        return rates, 2.0 - 1.5 / (1 + np.exp(-3 * (x - 0.5))) + np.where(x > 1.5, 5 * (x - 1.5), 0.0) + noise, None

    found = swept(sweep, 1e-7, 1.0, 120)
    assert found.result == "done" and bounds[1] == pytest.approx((0.1, 100.0))
    assert 0.5 < found.answer["start_lr"] <= found.answer["min_lr"]


def test_a_task_that_answers_slowly_is_swept_again_below_the_end() -> None:
    bounds: list[tuple[float, float]] = []

    def sweep(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        bounds.append((float(rates[0]), float(rates[-1])))
        noise = np.random.default_rng(1).normal(0, 0.05, len(rates))
        fall = 0.0 if len(bounds) == 1 else 1.5
        x = np.log10(rates)
        return rates, 2.3 - fall / (1 + np.exp(-4 * (x + 1.5))) + np.where(x > -0.5, 3 * (x + 0.5), 0.0) + noise, None

    found = swept(sweep, 1e-7, 1.0, 120)
    assert found.result == "done" and bounds[1] == pytest.approx((1e-3, 1.0))
    lowest = min(found.answer[k] for k in ("steep", "min_tenth", "valley"))
    assert f"{lowest:.3g}" in found.answer["raced"]  # what the sweep says takes part in the race
    assert found.steps >= 360


def racing(ends: Callable[[float], float | None], now: float = 0.0) -> Result:
    """A sweep that reads as 1e-2 or so, and constant rates that end at `ends(rate)`, or break (None)."""

    def sweep(rates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        x, noise = np.log10(rates), np.random.default_rng(0).normal(0, 0.005, len(rates))
        if np.ptp(rates):
            return rates, 2.0 - 1.5 / (1 + np.exp(-4 * (x + 2.5))) + np.where(x > -1, 5 * (x + 1), 0.0) + noise, None
        end = ends(float(rates[0]))
        if end is None:
            return rates[:30], np.r_[np.full(29, 2.0), np.inf], np.full((4, 4), 2.0)
        held = np.linspace(2.0, end, 16)[:, None] + np.array([0.0, 0.1, 0.2, 0.3])
        return rates, np.linspace(2.0, end, len(rates)) + noise, held

    return swept(sweep, 1e-7, 1.0, 120, now)


def test_rates_race_and_the_start_lies_below_the_lowest_that_no_other_beats() -> None:
    best = 3e-2
    found = racing(lambda rate: 0.5 + 0.5 * abs(np.log10(rate / best))).answer
    assert best / 3 <= found["won"] <= 3 * best and found["start_lr"] == pytest.approx(found["won"] / 2)
    assert found["fastest"] == found["won"]  # nothing lower is level with it
    best = found["won"] / 9  # too hot: it walks down
    again = racing(lambda rate: 0.5 + 0.5 * abs(np.log10(rate / best))).answer
    assert again["won"] < found["won"] / 2 and again["interval"][0] <= again["start_lr"]
    level = racing(lambda rate: 0.5)
    assert level.answer["won"] == pytest.approx(min(map(float, level.answer["raced"])), rel=0.01)  # equally well: the lowest
    assert f"a few hundred updates take {level.answer['fastest']:.2g}" in level.reason


def test_a_rate_that_breaks_in_the_race_is_not_recommended_in_any_way() -> None:
    plain = racing(lambda rate: 0.5).answer["won"]
    limit = plain / 4
    found = racing(lambda rate: None if rate > limit else 0.5).answer
    assert found["won"] <= limit and found["max_lr"] <= limit and found["interval"][1] <= limit
    none = racing(lambda rate: None)
    assert none.result == "refused" and "learned nothing after 240 updates" in none.reason and "code" not in none.answer


@pytest.mark.parametrize(
    ("now", "end", "result"), [(1.0, None, "fail"), (0.3, 1.7, "fail"), (3e-2, 0.6, "pass"), (1e-6, 1.99, "cannot-tell")]
)
def test_the_own_rate_races_too_and_the_preflight_says_whether_it_is_in_range(
    now: float, end: float | None, result: str
) -> None:
    found = racing(lambda rate: end if rate == now else 0.5, now)
    item = "the learning rate is in range"
    [told] = answered([Item(item, "cannot-tell", "")], "usual", lambda name, limits: found, ("lr-range",))
    assert told.result == result and f"yours, {now:.2g}, learns" in told.message
    assert (told.fix != "") == (result == "fail")
    assert found.answer["start_lr"] == racing(lambda rate: 0.5).answer["start_lr"]  # it does not change the answer
