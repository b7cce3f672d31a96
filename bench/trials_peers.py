"""Range test, sharpness and landscape beside torch-lr-finder, Lightning's finder, PyHessian, loss-landscapes and plain references.

    python -m venv .venv-peers && .venv-peers/bin/pip install torch==2.13.0 -c constraints.txt
    .venv-peers/bin/pip install -r bench/requirements-peers.txt -e . -c constraints.txt
    .venv-peers/bin/python -m bench.trials_peers [lr sharpness landscape]     (lr:traindx makes that row of lr anew)

Each finder is called as its own documentation says, on the tasks of `bench/trials.py`, and judged by the same grid (run that one
first). Writes bench/results/trials_peers.json and .md.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench import trials as own
from torch import nn

from traindx.trial import catalogue
from traindx.trials.curvature import eigenvalues, filter_normalised, moved
from traindx.trials.task import Task, fingerprint

HERE = Path(__file__).parent / "results"
OUT = HERE / "trials_peers.json"


def made(name: str, optimizer: str, seed: int, shuffled: bool = False) -> Task:
    torch.manual_seed(seed)
    return own.task(own.nets()[name], optimizer, seed=seed, shuffled=shuffled)


# -- learning rates


def by_traindx(task: Task) -> float | None:
    found = catalogue()["lr-range"].run(task)
    return found.answer.get("start_lr")


def by_torch_lr_finder(task: Task) -> float | None:
    import matplotlib

    matplotlib.use("Agg")
    from torch_lr_finder import LRFinder

    finder = LRFinder(task.model, task.optimizer, task.loss_fn, device="cpu")
    for group in task.optimizer.param_groups:
        group["lr"] = 1e-7
    finder.range_test(task.train, end_lr=1.0 if "Adam" in type(task.optimizer).__name__ else 10.0, num_iter=120)
    _, suggested = finder.plot()
    finder.reset()
    return float(suggested)


def by_lightning(task: Task) -> float | None:
    import lightning.pytorch as pl
    from lightning.pytorch.tuner import Tuner

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.lr = task.model, 1e-3

        def training_step(self, batch: Any, index: int) -> Any:
            return task.loss_fn(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            kind = type(task.optimizer)
            return kind(self.net.parameters(), lr=self.lr, **({"momentum": 0.9} if kind.__name__ == "SGD" else {}))

    trainer = pl.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    top = 1.0 if "Adam" in type(task.optimizer).__name__ else 10.0
    found = Tuner(trainer).lr_find(Module(), task.train, min_lr=1e-7, max_lr=top, num_training=120)
    return found.suggestion() if found is not None else None


def by_hand(task: Task) -> float | None:
    """The recipe of the books: a sweep, the steepest fall of the raw loss."""
    top = 1.0 if "Adam" in type(task.optimizer).__name__ else 10.0
    rates, losses = np.geomspace(1e-7, top, 120), []
    batches = iter(task.train)
    for rate in rates:
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(task.train)
            x, y = next(batches)
        for group in task.optimizer.param_groups:
            group["lr"] = float(rate)
        loss = task.loss_fn(task.model(x), y)
        task.optimizer.zero_grad()
        loss.backward()
        task.optimizer.step()
        losses.append(float(loss.detach()))
        if losses[-1] > 4 * min(losses):
            break
    return float(rates[int(np.argmin(np.gradient(np.array(losses))))])


FINDERS: dict[str, Callable[[Task], float | None]] = {
    "traindx": by_traindx,
    "torch-lr-finder": by_torch_lr_finder,
    "Lightning": by_lightning,
    "steepest by hand": by_hand,
}


@contextlib.contextmanager
def hushed():
    """Without the remarks of the peers."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def learning_rates(have: dict[str, Any], only: str = "") -> dict:
    """A row per finder; with `only` that finder's alone is made anew."""
    grid = json.loads(own.OUT.read_text(encoding="utf-8"))["lr_range"]["cells"]
    best = {(c["setup"], c["seed"]): c["best"] for c in grid}
    rows: dict[str, Any] = dict(have) if only else {}
    for finder, find in FINDERS.items():
        if only not in ("", finder):
            continue
        cells, shuffled, seconds, touched = [], [], 0.0, 0
        for name, optimizer in own.SETUPS:
            for seed in range(3):
                task = made(name, optimizer, seed)
                before, began = fingerprint(task), time.process_time()
                with hushed():
                    answer = find(task)
                seconds += time.process_time() - began
                touched += fingerprint(task) != before
                ratio = answer / best[f"{name} {optimizer}", seed] if answer else None
                cells.append({"setup": f"{name} {optimizer}", "seed": seed, "answer": answer, "ratio": ratio})
        for seed in range(5):
            with hushed():
                shuffled.append(find(made("mlp", "Adam", seed, shuffled=True)))
        ratios = [c["ratio"] for c in cells if c["ratio"] is not None]
        rows[finder] = {
            "cells": cells,
            "within": sum(0.1 <= r <= 2 for r in ratios),
            "too_hot": sum(r > 2 for r in ratios),
            "too_cold": sum(r < 0.1 for r in ratios),
            "none": len(cells) - len(ratios),
            "of": len(cells),
            "shuffled": shuffled,
            "cpu_s": round(seconds / len(cells), 2),
            "left_a_trace": touched,
        }
        print(finder, {k: v for k, v in rows[finder].items() if k != "cells"}, flush=True)
    return rows


# -- sharpness


def dense(model: nn.Module, loss_fn: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """The largest eigenvalue of the whole Hessian, by `torch.func` in double precision."""
    net = copy.deepcopy(model).double().eval()
    names, values = zip(*net.named_parameters(), strict=True)
    sizes = [v.numel() for v in values]
    buffers = dict(net.named_buffers())

    def loss(flat: torch.Tensor) -> torch.Tensor:
        parts = {n: p.reshape(v.shape) for n, p, v in zip(names, flat.split(sizes), values, strict=True)}
        return loss_fn(torch.func.functional_call(net, {**parts, **buffers}, (x.double(),)), y)

    flat = torch.cat([v.detach().reshape(-1) for v in values])
    return float(torch.linalg.eigvalsh(torch.func.hessian(loss)(flat))[-1])


def small(kind: str) -> nn.Module:
    torch.manual_seed(0)
    return {
        "tanh": lambda: nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10)),
        "relu": lambda: nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10)),
        "conv": lambda: own.Shaped(
            nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(36, 10)),
            (1, 8, 8),
        ),
    }[kind]()


def sharpness() -> dict:
    rows = []
    x, y = own.digits()
    x, y = x[:256], y[:256]
    for kind in ("tanh", "relu", "conv"):
        for trained in (0, 100):
            task = Task(small(kind), nn.CrossEntropyLoss(), [(x, y)], None, None)
            optimizer = torch.optim.Adam(task.model.parameters(), 1e-2)
            for _ in range(trained):
                optimizer.zero_grad()
                task.loss_fn(task.model(x), y).backward()
                optimizer.step()
            truth = dense(task.model, task.loss_fn, x, y)
            began = time.process_time()
            with task.twin() as twin:
                twin.model.eval()
                ours, _, products = eigenvalues(twin, (x, y))
            middle = time.process_time()
            try:
                from pyhessian import hessian

                with hushed():
                    theirs = float(
                        hessian(copy.deepcopy(task.model), task.loss_fn, data=(x, y), cuda=False).eigenvalues()[0][0]
                    )
            except Exception as why:  # an old package on a new torch: that it fails is the finding
                theirs = None
                print("PyHessian:", type(why).__name__, why)
            row = {"net": kind, "steps": trained, "dense": truth, "traindx": ours, "pyhessian": theirs, "products": products}
            row |= {"traindx_s": round(middle - began, 2), "pyhessian_s": round(time.process_time() - middle, 2)}
            rows.append(row)
            print(row, flush=True)
    off = {who: [abs(r[who] / r["dense"] - 1) for r in rows if r[who] is not None] for who in ("traindx", "pyhessian")}
    return {"rows": rows, "worst": {who: max(v) if v else None for who, v in off.items()}}


# -- landscape


def landscape() -> dict:
    """The same line through the same weights, point by point: ours, loss-landscapes, and a plain loop."""
    x, y = own.digits()
    x, y = x[:512], y[:512]
    rows = []
    for kind in ("tanh", "relu", "conv"):
        task = Task(small(kind), nn.CrossEntropyLoss(), [(x, y)], None, None)
        task.model.eval()
        points = 20
        with task.twin() as twin:
            twin.model.eval()
            direction = filter_normalised(twin, torch.Generator().manual_seed(1))
            ours = []
            for i in range(points):
                with moved(twin, direction * ((i + 1) / points)), torch.no_grad():
                    ours.append(float(twin.loss((x, y))))
        plain = [by_plain_loop(task, direction * ((i + 1) / points), x, y) for i in range(points)]
        try:
            theirs = by_loss_landscapes(task, direction, points, x, y)
        except Exception as why:  # as above
            theirs = None
            print("loss-landscapes:", type(why).__name__, why)
        ratios = filters(task, direction)
        row = {"net": kind, "plain": float(np.max(np.abs(np.array(ours) - plain)))}
        row |= {"loss_landscapes": float(np.max(np.abs(np.array(ours) - theirs))) if theirs is not None else None}
        row |= {"filter_norm_error": ratios}
        rows.append(row)
        print(row, flush=True)
    return {"rows": rows}


def by_plain_loop(task: Task, direction: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> float:
    net = copy.deepcopy(task.model).eval()
    torch.nn.utils.vector_to_parameters(
        torch.nn.utils.parameters_to_vector(net.parameters()).detach() + direction, net.parameters()
    )
    with torch.no_grad():
        return float(task.loss_fn(net(x), y))


def by_loss_landscapes(task: Task, direction: torch.Tensor, points: int, x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    import loss_landscapes
    from loss_landscapes.metrics import Loss

    end = copy.deepcopy(task.model)
    torch.nn.utils.vector_to_parameters(
        torch.nn.utils.parameters_to_vector(end.parameters()).detach() + direction, end.parameters()
    )
    return loss_landscapes.linear_interpolation(task.model, end, Loss(task.loss_fn, x, y), points, deepcopy_model=True)


def filters(task: Task, direction: torch.Tensor) -> float:
    """How far the length of any filter of the direction is from the length of that filter's weights."""
    worst, at = 0.0, 0
    for p in task.model.parameters():
        part = direction[at : at + p.numel()].reshape(p.shape)
        at += p.numel()
        if p.ndim >= 2:
            mine, own_length = (t.detach().reshape(len(t), -1).norm(dim=1) for t in (part, p))
            worst = max(worst, float((mine / own_length - 1).abs().max()))
        else:
            worst = max(worst, float(part.abs().max()))
    return worst


# -- the report


def table(found: dict[str, Any]) -> str:
    lines: list[str] = []
    if "lr" in found:
        lines += [
            "**Learning rates.** 21 tasks (7 set-ups, 3 seeds); right: from a tenth of the best rate of a grid to twice it.", "",
            "| finder | right | too hot | too cold | none | answers on shuffled labels | CPU per task | model, optimizer or random numbers changed |",
            "|---|---|---|---|---|---|---|---|",
        ]  # fmt: skip
        for name, r in found["lr"].items():
            given = sum(a is not None for a in r["shuffled"])
            lines.append(
                f"| {name} | {r['within']} of {r['of']} | {r['too_hot']} | {r['too_cold']} | {r['none']} "
                f"| {given} of {len(r['shuffled'])} | {r['cpu_s']:.1f} s | {r['left_a_trace']} of {r['of']} |"
            )
    if "sharpness" in found:
        lines += ["", "**Sharpness.** The largest eigenvalue beside that of the dense Hessian in double precision.", ""]
        lines += [
            "| net | after | dense | traindx | PyHessian | CPU traindx | CPU PyHessian |",
            "|---|---|---|---|---|---|---|",
        ]
        for r in found["sharpness"]["rows"]:
            theirs = f"{r['pyhessian']:.4g} ({r['pyhessian'] / r['dense'] - 1:+.2%})" if r["pyhessian"] is not None else "fails"
            lines.append(
                f"| {r['net']} | {r['steps']} steps | {r['dense']:.4g} | {r['traindx']:.4g} ({r['traindx'] / r['dense'] - 1:+.2%}) "
                f"| {theirs} | {r['traindx_s']:.1f} s | {r['pyhessian_s']:.1f} s |"
            )
    if "landscape" in found:
        lines += ["", "**Landscape.** The same line through the same weights, 20 points: the largest difference in loss.", ""]
        lines += ["| net | to a plain loop | to loss-landscapes | filters off their length by |", "|---|---|---|---|"]
        for r in found["landscape"]["rows"]:
            theirs = f"{r['loss_landscapes']:.1e}" if r["loss_landscapes"] is not None else "fails"
            lines.append(f"| {r['net']} | {r['plain']:.1e} | {theirs} | {r['filter_norm_error']:.1e} |")
    return "\n".join(lines) + "\n"


PARTS = {"sharpness": sharpness, "landscape": landscape}


def main() -> None:
    torch.set_num_threads(1)
    found = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    for asked in sys.argv[1:] or ("lr", *PARTS):
        part, _, only = asked.partition(":")
        found[part] = learning_rates(found.get(part, {}), only) if part == "lr" else PARTS[part]()
        OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        OUT.with_suffix(".md").write_text(table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
