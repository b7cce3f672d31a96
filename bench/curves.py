"""Reproduce the measured figures of the shared statistics: false-slope rates, spike alarms, overfitting power, coverage.

    python -m bench.curves            everything that needs only numpy (about a minute)
    python -m bench.curves --train    also the figures from real small trainings (torch, scikit-learn; minutes)

Each row says what was measured and the range it must lie in; the exit code is 1 when one does not.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator

import numpy as np

from traindx import stats
from traindx.stats import Direction

Row = tuple[str, float, float, float]  # what, measured, lowest and highest allowed


def ar(rng: np.random.Generator, n: int, phi: float, df: int = 0, burn: int = 200) -> np.ndarray:
    """AR(1) noise of unit deviation, Gaussian or Student-t."""
    e = rng.standard_t(df, n + burn) if df else rng.standard_normal(n + burn)
    z = np.zeros(n + burn)
    for i in range(1, n + burn):
        z[i] = phi * z[i - 1] + e[i]
    return z[burn:] / z[burn:].std()


# -- 2.2 slopes -------------------------------------------------------------------------------------------------------------------


def false_slopes(phi: float, repeats: int, seed: int = 0) -> tuple[float, float]:
    """Share of flat series called sloped at nominal 5 %: plain Theil–Sen on raw points, and ours on blocks."""
    rng = np.random.default_rng(seed)
    naive = ours = 0
    for _ in range(repeats):
        y = ar(rng, 600, phi, df=5)
        raw, block = stats.theil_sen(y[::3]), stats.block_theil(y)
        naive += raw.lo > 0 or raw.hi < 0
        ours += block.lo > 0 or block.hi < 0
    return naive / repeats, ours / repeats


def slopes(repeats: int = 400) -> Iterator[Row]:
    for phi, top in ((0.0, 0.08), (0.3, 0.08), (0.6, 0.08), (0.9, 0.10), (0.98, 0.15)):
        naive, ours = false_slopes(phi, repeats)
        yield f"2.2 false slopes, blocks, φ={phi}", ours, 0.0, top
        if phi >= 0.9:
            yield f"2.2 false slopes, raw points, φ={phi} (why blocks)", naive, 0.3, 1.0


# -- 2.3 verdicts -----------------------------------------------------------------------------------------------------------------

STEPS = np.arange(6000) + 1.0
CURVES = {
    "flat after drop": (2 + 3 * np.exp(-STEPS / 200), Direction.FLAT),
    "power law b=.5": (1.5 + 8 * (STEPS + 5) ** -0.5, Direction.FALLING),
    "power law b=.15": (1.0 + 4 * STEPS**-0.15, Direction.FALLING),
    "slow linear": (2 + 3 * np.exp(-STEPS / 200) - 0.09 * STEPS / 2000, Direction.FALLING),
    "rising": (2 + 3 * np.exp(-STEPS / 200) + 0.15 * np.maximum(0, STEPS - 3000) / 2000, Direction.RISING),
}


def verdicts(name: str, noise: float, repeats: int, seed: int = 3) -> dict[Direction, float]:
    """Shares of the four answers on one kind of curve."""
    rng = np.random.default_rng(seed)
    clean, _ = CURVES[name]
    said = [stats.trend_verdict(clean + noise * ar(rng, 6000, 0.5), 2000).direction for _ in range(repeats)]
    return {d: said.count(d) / repeats for d in Direction}


def trends(repeats: int = 60) -> Iterator[Row]:
    for name, (_, truth) in CURVES.items():
        for noise, least in ((0.02, 0.98), (0.1, 0.0), (0.3, 0.0)):
            share = verdicts(name, noise, repeats)
            wrong = 1 - share[truth] - share[Direction.UNSURE]
            yield f"2.3 {name}, noise {noise}: right", share[truth], least, 1.0
            yield f"2.3 {name}, noise {noise}: wrong", max(0.0, wrong), 0.0, 0.07


# -- 2.4 spikes -------------------------------------------------------------------------------------------------------------------

NOISES: dict[str, dict[str, float]] = {
    "gauss": {},
    "t4": {"df": 4},
    "t3": {"df": 3},
    "gamma": {"skew": 1},
    "t4 φ=.5": {"df": 4, "phi": 0.5},
    "t4 φ=.8": {"df": 4, "phi": 0.8},
}


def noisy_curve(rng: np.random.Generator, n: int, df: float = 0, phi: float = 0.0, skew: float = 0) -> np.ndarray:
    base = 1.5 + 3.0 * (np.arange(n) + 20.0) ** -0.4 * 20**0.4 * 0.6
    e = rng.standard_t(df, n) if df else rng.standard_normal(n)
    if skew:
        e = (rng.gamma(4, 1, n) - 4) / 2
    for i in range(1, n):
        e[i] += phi * e[i - 1]
    return base * (1 + 0.06 * e)


def injected(rel: float, tau: float, n: int = 10_000, seed: int = 2) -> tuple[float, float]:
    """Share of injected spikes found as state and as batch events."""
    rng = np.random.default_rng(seed)
    y = noisy_curve(rng, n, df=4)
    places = np.arange(500, n - 50, 500)
    for p in places:
        y[p : p + 40] += y[p] * rel * np.exp(-np.arange(40) / tau)
    found = stats.spike_events(y)
    state, batch = ({s.index for s in part} for part in (found.state, found.batch))
    near = [range(p, p + 4) for p in places]
    return float(np.mean([any(q in state for q in r) for r in near])), float(
        np.mean([any(q in batch for q in r) for r in near])
    )


def spikes(n: int = 10_000) -> Iterator[Row]:
    for name, kw in NOISES.items():
        found = stats.spike_events(noisy_curve(np.random.default_rng(2), n, **kw))
        yield f"2.4 false state events per 10,000, {name}", len(found.state) * 1e4 / n, 0, 1
        yield f"2.4 false batch events per 10,000, {name}", len(found.batch) * 1e4 / n, 0, 4
    for rel, least in ((0.8, 0.85), (1.5, 0.97)):
        for tau in (3, 10):
            yield f"2.4 found as state, +{rel:.0%} decaying over {tau}", injected(rel, tau, n)[0], least, 1
    yield "2.4 one-step spikes called state", injected(1.5, 0.2, n)[0], 0, 0.06


# -- 2.6 overfitting --------------------------------------------------------------------------------------------------------------


def evaluations(rng: np.random.Generator, kind: str, noise: float, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation loss of one kind of run over n evaluations."""
    t = np.arange(n)
    train = 0.2 + 2 * np.exp(-t / 8.0) + 0.01 * rng.standard_normal(n)
    val = 0.9 + 1.4 * np.exp(-t / 4.0)
    bump = 0.4 * np.exp(-(((t - 20) / 2.0) ** 2))
    if kind == "flat":
        val = 0.9 + 1.4 * np.exp(-t / 5.0)
    elif kind == "still falling":
        val = 0.5 + 1.8 * (t + 1.0) ** -0.6
    elif kind == "overfit":
        val = val + 0.012 * np.maximum(0, t - 12)
    elif kind == "strong":
        val = val + 0.05 * np.maximum(0, t - 10)
    elif kind == "restart":
        val, train = val + bump, train + bump
    return train, val * (1 + noise * rng.standard_normal(n))


def alarm_rate(kind: str, noise: float, repeats: int, seed: int = 0) -> float:
    rng = np.random.default_rng(seed)
    pairs = [evaluations(rng, kind, noise) for _ in range(repeats)]
    return sum(stats.overfit_na(val, train).fired is not None for train, val in pairs) / repeats


def overfitting(repeats: int = 100) -> Iterator[Row]:
    for noise in (0.005, 0.02, 0.05):
        for kind in ("flat", "still falling", "restart"):
            yield f"2.6 false alarms, {kind}, noise {noise}", alarm_rate(kind, noise, repeats), 0, 0.01
        yield f"2.6 power, strong, noise {noise}", alarm_rate("strong", noise, repeats), 0.95, 1
        if noise < 0.05:
            yield f"2.6 power, mild, noise {noise}", alarm_rate("overfit", noise, repeats), 0.7, 1


# -- 2.7–2.10 epochs --------------------------------------------------------------------------------------------------------------


def epochs_sim(order: str, seed: int, per: int = 40, epochs: int = 8) -> np.ndarray:
    """Losses whose batches are drawn anew, or come in the same order each epoch."""
    rng = np.random.default_rng(seed)
    fixed = rng.normal(size=per)
    base = 0.4 + 1.5 * np.exp(-np.arange(per * epochs) / (2.0 * per))
    own = np.concatenate([fixed if order == "fixed" else rng.normal(size=per) for _ in range(epochs)])
    return base * np.exp(0.2 * own + 0.05 * rng.normal(size=per * epochs))


def staircase(seed: int, drop: float, per: int = 40, epochs: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    level = 2.0 * np.exp(-drop * (np.arange(per * epochs) // per))
    return level * np.exp(0.1 * rng.normal(size=per * epochs))


def epoch_patterns(repeats: int = 20) -> Iterator[Row]:
    shuffled = [stats.epoch_profile_corr(epochs_sim("shuffled", s), 40) for s in range(repeats)]
    ordered = [stats.epoch_profile_corr(epochs_sim("fixed", s), 40) for s in range(repeats)]
    yield "2.7 |m| of shuffled data, largest", max(abs(p.m) for p in shuffled), 0, 0.2
    yield "2.7 m of a fixed order, least", min(p.m for p in ordered), 0.3, 1
    yield "2.7 z of a fixed order, least", min(p.z for p in ordered), 5, 1e9
    smooth = [stats.boundary_jump(epochs_sim("shuffled", s), 40).z for s in range(repeats)]
    stairs = [stats.boundary_jump(staircase(s, 0.3), 40).z for s in range(repeats)]
    yield "2.8 boundary z of smooth runs, least", min(smooth), -3, 0
    yield "2.8 boundary z of staircases, largest", max(stairs), -99, -3
    means = [
        np.concatenate([np.cumsum(e) / np.arange(1, 41) for e in epochs_sim("s", s).reshape(-1, 40)]) for s in range(repeats)
    ]
    yield "2.10 running means recognised", np.mean([stats.log_form(m, 40) == "running-mean" for m in means]), 0.95, 1
    raw = [stats.log_form(epochs_sim("s", s), 40) == "raw" for s in range(repeats)]
    yield "2.10 raw losses left alone", np.mean(raw), 0.95, 1
    gap = max(float(np.abs(stats.undo_running_mean(m, 40) - epochs_sim("s", s)).max()) for s, m in enumerate(means))
    yield "2.10 error of the undone mean", gap, 0, 1e-12


# -- 2.14, 2.18 -------------------------------------------------------------------------------------------------------------------


def noise_scale_error(draws: int, repeats: int, seed: int = 0) -> tuple[float, float, float]:
    """5 % and 95 % quantile of estimate / truth, and the coverage of the interval, for known gradient noise."""
    rng = np.random.default_rng(seed)
    dim, b, big = 400, 16, 64
    mean = rng.normal(size=dim)
    mean *= 1.0 / np.linalg.norm(mean)
    truth = 68.0
    sd = math.sqrt(truth / dim)
    ratios, inside = [], 0
    for _ in range(repeats):
        micro = mean + rng.normal(size=(draws, big // b, dim)) * sd / math.sqrt(b)
        found = stats.gns((micro**2).sum(2).mean(1), (micro.mean(1) ** 2).sum(1), b, big)
        inside += found.lo <= truth <= found.hi
        ratios.append((found.value or math.inf) / truth)
    lo, hi = np.quantile(ratios, [0.05, 0.95])
    return float(lo), float(hi), inside / repeats


def noise_scales(repeats: int = 100) -> Iterator[Row]:
    for draws, lo, hi in ((10, 0.6, 1.9), (50, 0.8, 1.4)):
        low, high, inside = noise_scale_error(draws, repeats)
        yield f"2.14 B_noise / truth, {draws} draws, 5 %", low, lo, 1
        yield f"2.14 B_noise / truth, {draws} draws, 95 %", high, 1, hi
        yield f"2.14 coverage of the 90 % interval, {draws} draws", inside, 0.8, 1


def coverage(repeats: int, seed: int = 0) -> tuple[float, float]:
    """Coverage of the truth among answered forecasts at 1.7–4 × horizon, and the share refused."""
    rng = np.random.default_rng(seed)
    inside = refused = 0
    for _ in range(repeats):
        b, c, a = rng.uniform(0.15, 1.0), rng.uniform(0.2, 3), rng.uniform(0.5, 4)
        t0, phi, noise = rng.choice([0, 5, 50]), rng.choice([0, 0.5, 0.8]), rng.choice([0.01, 0.03, 0.08])
        clean = c + a * ((np.arange(4000) + 1 + t0) / (1 + t0)) ** -b
        e = rng.standard_normal(4000)
        for i in range(1, 4000):
            e[i] += phi * e[i - 1]
        n = int(4000 * rng.choice([0.25, 0.4, 0.6]))
        found = stats.forecast((clean * (1 + noise * e))[:n], 4000, floor=0.0)
        refused += bool(found.refused)
        inside += not found.refused and found.lo <= clean[-1] <= found.hi
    return inside / max(1, repeats - refused), refused / repeats


MISFITS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plateau then drop": lambda t: 2.3 - 1.5 / (1 + np.exp(-(t - 1500) / 150)),
    "double descent bump": lambda t: 1 + 3 * (t + 3.0) ** -0.5 + 0.3 * np.exp(-(((t - 1200) / 300.0) ** 2)),
}


def forecasts(repeats: int = 150) -> Iterator[Row]:
    inside, refused = coverage(repeats)
    yield "2.18 coverage of answered forecasts", inside, 0.88, 1
    yield "2.18 power laws refused", refused, 0, 0.25
    rng = np.random.default_rng(1)
    t = np.arange(2000.0) + 1
    for name, clean in MISFITS.items():
        said = [stats.forecast(clean(t) * (1 + 0.03 * rng.standard_normal(2000)), 4000, floor=0.0).refused for _ in range(10)]
        yield f"2.18 refused: {name}", np.mean([bool(s) for s in said]), 0.9, 1
    exponential = 1 + 2 * np.exp(-t / 300)
    runs = [stats.forecast(exponential * (1 + 0.03 * rng.standard_normal(2000)), 4000, floor=0.0) for _ in range(20)]
    told = [f for f in runs if not f.refused]
    yield "2.18 exponential + floor: refused", 1 - len(told) / len(runs), 0, 0.4
    yield "2.18 exponential + floor: largest |error| at twice the length", max(abs(f.value - 1.0) for f in told), 0, 0.02


def constants() -> Iterator[Row]:
    for classes, value in ((2, 0.3133), (3, 0.5514), (10, 1.4612), (100, 3.622), (1000, 5.909)):
        yield (
            f"2.9 softmax twice, C={classes}",
            stats.known_floors(classes=classes)["softmax-twice"],
            value - 5e-4,
            value + 5e-4,
        )
    yield "2.9 smoothing .1, C=10", stats.smoothing_entropy(0.1, 10), 0.50025, 0.50035


SIMULATED = (slopes, trends, spikes, overfitting, epoch_patterns, noise_scales, forecasts, constants)


def main(argv: list[str]) -> int:
    parts: list[Callable[[], Iterator[Row]]] = list(SIMULATED)
    if "--train" in argv:
        from bench.curves_trained import trained

        parts.append(trained)
    bad = 0
    for part in parts:
        for what, value, lo, hi in part():
            good = lo <= value <= hi
            bad += not good
            print(f"{'ok ' if good else 'OUT'}  {what:<62} {value:9.4g}   [{lo:g}, {hi:g}]", flush=True)
    print(f"{bad} outside their range")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
