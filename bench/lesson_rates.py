"""The learning-rate finder against the usual one (steepest fall of a smoothed sweep): which rate has the lower loss after 200 steps?

python -m bench.lesson_rates     writes bench/results/lesson_rates.json and prints the table
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch
from bench.trials import nets, task
from torch import nn

from traindx.trial import catalogue
from traindx.trials.task import Task

OUT = Path(__file__).parent / "results" / "lesson_rates.json"
STEPS, NEAR = 200, 0.02  # updates of the comparison; losses that differ by less than this share of the fall are level


def usual(t: Task, lo: float = 1e-7, hi: float = 10.0, steps: int = 100, keep: float = 0.95) -> float:
    """The rate at the steepest fall of the smoothed loss over the logarithm of the rate, until it is five times its best."""
    rates, losses, mean = np.geomspace(lo, hi, steps + 1)[:steps], [], 0.0
    with t.twin(seed=0) as twin:
        twin.model.train()
        for i, (rate, batch) in enumerate(zip(rates, t.cycle(steps), strict=False)):
            for group in twin.optimizer.param_groups:
                group["lr"] = float(rate)
            mean = keep * mean + (1 - keep) * twin.step(batch)
            losses.append(mean / (1 - keep ** (i + 1)))
            if not losses[-1] <= 5 * min(losses):
                break
    y, x = np.array(losses), np.log(rates[: len(losses)])
    slopes = (y[2:] - y[:-2]) / (x[2:] - x[:-2])
    return float(rates[1 + int(np.nanargmin(slopes))])


def after(t: Task, rate: float, seed: int) -> tuple[float, float]:
    """Losses before and after: over batches that are not trained on."""
    probe = t.batches(3, "val")
    with t.twin(seed=seed) as twin:
        first = twin.probe(probe)
        twin.model.train()
        for group in twin.optimizer.param_groups:
            group["lr"] = rate
        for batch in t.cycle(STEPS):
            if not math.isfinite(twin.step(batch)):
                return first, math.inf
        return first, twin.probe(probe)


SETUPS = [(n, o) for n in ("linear", *nets()) for o in ("SGD", "Adam")]


def made(name: str, optimizer: str, seed: int) -> Task:
    torch.manual_seed(seed)
    return task(nn.Linear(64, 10) if name == "linear" else nets()[name], optimizer, seed=seed)


def main(seeds: tuple[int, ...] = (0, 1)) -> None:
    rows = []
    for name, optimizer in SETUPS:
        for seed in seeds:
            t = made(name, optimizer, seed)
            theirs = usual(t)
            found = catalogue()["lr-range"].run(t)
            rate, fastest = found.answer.get("start_lr"), found.answer.get("fastest")
            first, usual_loss = after(t, theirs, seed)
            ours = after(t, rate, seed)[1] if rate else None
            row = {"setup": f"{name} {optimizer}", "seed": seed, "first": first, "usual": theirs, "usual_loss": usual_loss}
            row |= {"here": rate, "here_loss": ours, "result": found.result, "raced": found.answer.get("raced")}
            row |= {"fastest": fastest, "fastest_loss": after(t, fastest, seed)[1] if fastest else None}
            rows.append(row)
            print(_line(row), flush=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for which in ("here", "fastest"):
        print(f"{which}: " + ", ".join(f"{n} {how}" for how, n in counted(rows, which).items()) + f" of {len(rows)}")


def _line(row: dict) -> str:
    told = (f"{w} {row[w]:.2g}: {row[w + '_loss']:.4g}" for w in ("usual", "here", "fastest") if row[w])
    return f"{row['setup']:16} {row['seed']} start {row['first']:.3f}  " + "   ".join(told)


def counted(rows: list[dict], which: str) -> dict[str, int]:
    """How often the rate has the lower, a level or the higher loss than the usual finder's."""
    found = {"lower": 0, "level": 0, "higher": 0, "refused": 0}
    for r in rows:
        mine, usual = r[which + "_loss"], r["usual_loss"]
        if mine is None:
            found["refused"] += 1
        elif abs(mine - usual) <= NEAR * (r["first"] - min(mine, usual)):
            found["level"] += 1
        else:
            found["lower" if mine < usual else "higher"] += 1
    return found


if __name__ == "__main__":
    main()
