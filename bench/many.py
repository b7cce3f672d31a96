"""Sweeps with a planted cause, and many runs in one folder: is the cause named, and how long does it take?

python bench/many.py sweeps --seeds 2        # generated logs with config.json beside them, read and judged as by a user
python bench/many.py time --runs 1500        # the first and the second `traindx diagnose FOLDER`
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from traindx import api
from traindx.diagnosis import common
from traindx.diagnosis.many import diagnose_all

Config = dict[str, Any]
RATES = (0.001, 0.01, 0.1, 1.0, 10.0)


def _grid(rng: np.random.Generator) -> list[Config]:
    return [
        {
            "lr": lr,
            "optimizer": opt,
            "act": act,
            "dropout": float(rng.choice([0.0, 0.1, 0.3])),
            "width": int(rng.choice([64, 128])),
            "seed": int(rng.integers(99)),
        }
        for lr in RATES
        for opt in ("sgd", "adam")
        for act in ("relu", "sigmoid")
        for _ in range(2)
    ]


def _random(rng: np.random.Generator) -> list[Config]:
    return [
        {
            "lr": float(10 ** rng.uniform(-4, 1)),
            "wd": float(10 ** rng.uniform(-6, -1)),
            "depth": int(rng.choice([2, 4, 8])),
            "optimizer": str(rng.choice(["sgd", "adam", "lion"])),
            "warmup": int(rng.choice([0, 100])),
        }
        for _ in range(36)
    ]


def _seeds(rng: np.random.Generator) -> list[Config]:
    return [{"lr": 0.1, "optimizer": "sgd", "seed": i} for i in range(12)]


# name → the settings, which of them are sick, and the settings that the cause must name (none: nothing may be claimed)
Plant = tuple[Callable[[np.random.Generator], list[Config]], Callable[[Config, np.random.Generator], bool], tuple[str, ...]]
PLANTED: dict[str, Plant] = {
    "rate too high": (_grid, lambda c, r: c["lr"] >= 1, ("lr",)),
    "rate too low": (_grid, lambda c, r: c["lr"] <= 0.001, ("lr",)),
    "one optimizer": (_grid, lambda c, r: c["optimizer"] == "adam", ("optimizer",)),
    "one activation": (_grid, lambda c, r: c["act"] == "sigmoid", ("act",)),
    "rate × optimizer": (_grid, lambda c, r: c["lr"] >= 1 and c["optimizer"] == "adam", ("lr", "optimizer")),
    "rate × activation": (_grid, lambda c, r: c["lr"] >= 0.1 and c["act"] == "sigmoid", ("lr", "act")),
    "random search, rate": (_random, lambda c, r: c["lr"] > 0.5, ("lr",)),
    "random search, lion": (_random, lambda c, r: c["optimizer"] == "lion", ("optimizer",)),
    "random search, depth × warm-up": (_random, lambda c, r: c["depth"] >= 4 and c["warmup"] == 0, ("depth", "warmup")),
    "rate too high, with noise": (_grid, lambda c, r: (c["lr"] >= 1) != (r.random() < 0.05), ("lr",)),
    "no effect, a third sick": (_grid, lambda c, r: r.random() < 0.33, ()),
    "no effect, random search": (_random, lambda c, r: r.random() < 0.25, ()),
    "no effect, half sick": (_random, lambda c, r: r.random() < 0.5, ()),
    "nobody sick": (_grid, lambda c, r: False, ()),
    "only seed noise": (_seeds, lambda c, r: r.random() < 0.3, ()),
}


def curve(sick: bool, rng: np.random.Generator, epochs: int = 40) -> str:
    """The log of a small classifier of ten classes: one that learns, or one that stays at chance."""
    e = np.arange(epochs)
    good = 0.15 + (math.log(10) - 0.15) * np.exp(-e / 8)
    loss = (math.log(10) + 0.003 * rng.standard_normal(epochs)) if sick else good * (1 + 0.02 * rng.standard_normal(epochs))
    val = loss + 0.02 * rng.standard_normal(epochs).__abs__()
    acc = (
        (0.1 + 0.005 * rng.standard_normal(epochs))
        if sick
        else 0.97 - 0.87 * np.exp(-e / 6) + 0.004 * rng.standard_normal(epochs)
    )
    lines = [f"{i},{a:.5f},{b:.5f},{c:.4f}" for i, a, b, c in zip(e, loss, val, acc)]
    return "epoch,train_loss,val_loss,val_acc\n" + "\n".join(lines) + "\n"


def write(folder: Path, configs: list[Config], sick: list[bool], rng: np.random.Generator) -> None:
    for i, (config, bad) in enumerate(zip(configs, sick)):
        home = folder / f"run-{i:04d}"
        home.mkdir(parents=True)
        (home / "log.csv").write_text(curve(bad, rng))
        (home / "config.json").write_text(json.dumps(config))


def sweeps(seeds: int) -> None:
    """Each plant with some seeds: whether the settings named are those planted, and none else."""
    named = claimed = planted = null = 0
    for name, (grid, rule, truth) in PLANTED.items():
        for seed in range(seeds):
            rng = np.random.default_rng([seed, len(name)])
            configs = grid(rng)
            sick = [bool(rule(c, rng)) for c in configs]
            with tempfile.TemporaryDirectory() as home:
                write(Path(home), configs, sick, rng)
                found = common.sweep(diagnose_all(api.load(Path(home))))
            judged = sum(d.verdict in common.SICK for d in found.diagnoses)
            said = found.causes[0].text if found.causes else ""
            keys = tuple(k for k in configs[0] if f"{k} " in said)
            right = set(keys) == set(truth) and (not truth or len(found.causes) == 1 or "noise" in name)
            if truth:
                planted, named = planted + 1, named + right
            else:
                null, claimed = null + 1, claimed + bool(found.causes)
            print(
                f"{'ok ' if right else 'BAD'} {name:32} {sum(sick)} sick, {judged} judged so; {[c.text for c in found.causes]}",
                flush=True,
            )
    print(f"cause named: {named} of {planted}; claimed where there is none: {claimed} of {null}")


def timed(count: int) -> None:
    """The command on a folder of `count` runs, twice."""
    with tempfile.TemporaryDirectory() as home:
        rng = np.random.default_rng(0)
        configs = [{"lr": float(rng.choice(RATES)), "optimizer": str(rng.choice(["sgd", "adam"]))} for _ in range(count)]
        write(Path(home), configs, [c["lr"] >= 1 for c in configs], rng)
        for turn in ("first", "second"):
            begun = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "traindx", "diagnose", home, "--fail-on", "never"], check=True, stdout=subprocess.DEVNULL
            )
            most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{turn}: {count} runs in {time.perf_counter() - begun:.1f} s, at most {most:.0f} MB in a process")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sweeps", "time"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1500)
    given = parser.parse_args()
    sweeps(given.seeds) if given.what == "sweeps" else timed(given.runs)
