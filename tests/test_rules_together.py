"""The whole catalogue on healthy runs with everything recorded: nobody raises an alarm, and most of them can look."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clinic.store import RUNS, load

from runs import learning, noise, steady
from traindx import signals
from traindx.diagnosis import diagnose
from traindx.finding import Severity, Status
from traindx.rule import catalogue
from traindx.run import Event, Matrix, Run, Series

N, EVERY, PER_EPOCH, CLASSES, BATCH = 1200, 10, 60, 10, 64
STEPS, FULL = np.arange(N), np.arange(0, N, EVERY)
EVALS = np.arange(PER_EPOCH - 1, N, PER_EPOCH)
LAYERS = ["stem", "block1.fc", "block2.fc", "block3.fc", "head"]
NORMS = ["block1.norm", "block2.norm", "block3.norm"]
SHAPES: dict[str, list[int]] = {
    "stem.weight": [128, 64],
    "stem.bias": [128],
    **{f"block{i}.{part}": size for i in (1, 2, 3) for part, size in (("fc.weight", [128, 128]), ("fc.bias", [128]))},
    **{f"{n}.weight": [128] for n in NORMS},
    "head.weight": [CLASSES, 128],
    "head.bias": [CLASSES],
}
WEIGHTS = [n for n in SHAPES if len(SHAPES[n]) == 2]
ACTS = ["block1.act", "block2.act", "block3.act"]


def decay(n: int, start: float, end: float, sd: float = 0.02, seed: int = 0) -> np.ndarray:
    """From start to end along a power law, with relative noise."""
    t = np.linspace(0, 1, n)
    return (end + (start - end) * (1 + 30 * t) ** -0.8) * (1 + noise(n, sd, seed))


def per(names: list[str], level: float | dict[str, float], sd: float = 0.03, end: float = 1.0, at: np.ndarray = FULL) -> Matrix:
    """One noisy, slowly changing column per name."""
    columns = []
    for i, name in enumerate(names):
        base = level[name] if isinstance(level, dict) else level
        columns.append(base * np.linspace(1.0, end, len(at)) * (1 + noise(len(at), sd, seed=100 + i)))
    return Matrix(at, tuple(names), np.column_stack(columns))


def rms(name: str) -> float:
    return 0.08 if len(SHAPES[name]) == 2 else 1.0 if "norm" in name else 0.05


def norm_of(name: str) -> float:
    return rms(name) * math.sqrt(math.prod(SHAPES[name]))


def curves(seed: int) -> dict[str, Series | Matrix]:
    """Loss, metrics, learning rate, clipping."""
    loss = learning(N, 2.35, 0.25, 0.04, seed)
    val = np.interp(EVALS, STEPS, learning(N, 2.32, 0.30, 0.0, seed)) + noise(len(EVALS), 0.006, seed + 1)
    right = 1 - 0.85 * (loss - 0.2) / 2.2
    rate = 1e-3 * np.minimum(1.0, (STEPS + 1) / 50) * 0.5 * (1 + np.cos(np.pi * STEPS / (1.3 * N)))
    norm = decay(N, 2.2, 0.8, 0.15, seed + 2)
    recall = np.clip(1 - 0.7 * (val - 0.25)[:, None] / 2 - np.linspace(0, 0.08, CLASSES), 0, 1)
    names = tuple(str(c) for c in range(CLASSES))
    support = np.full((len(EVALS), CLASSES), 100.0)
    return {
        "loss/train": Series(STEPS, loss),
        "loss/val": Series(EVALS, val),
        "loss/sample_var": Series(STEPS, BATCH * 0.04**2 * (1 + noise(N, 0.1, seed + 3)) + 1e-4),
        "accuracy/train": Series(STEPS, np.clip(right, 0.08, 0.99)),
        "accuracy/val": Series(EVALS, np.clip(1 - 0.85 * (val - 0.2) / 2.2, 0.08, 0.97)),
        "confidence/train": Series(STEPS, np.clip(right - 0.02, 0.1, 0.97)),
        "confidence/val": Series(EVALS, np.clip(1 - 0.85 * (val - 0.2) / 2.2 - 0.01, 0.1, 0.96)),
        "eval/samples": Series(EVALS, np.full(len(EVALS), 1000.0)),
        "eval/loss_se": Series(EVALS, np.full(len(EVALS), 0.012)),
        "eval/nll_tempered": Series(EVALS, val * 0.995),
        "eval/temperature": Series(EVALS, np.full(len(EVALS), 1.03)),
        "eval/unweighted_loss": Series(EVALS, val * 1.0005),
        "eval/recall/class": Matrix(EVALS, names, recall),
        "eval/support/class": Matrix(EVALS, names, support),
        "eval/predicted/class": Matrix(EVALS, names, support + np.random.default_rng(seed).normal(0, 4, support.shape)),
        "eval/train_mode": Series(EVALS, np.zeros(len(EVALS))),
        "eval/grad_enabled": Series(EVALS, np.zeros(len(EVALS))),
        "eval/buffers_changed": Series(EVALS, np.zeros(len(EVALS))),
        "eval/weights_differ": Series(EVALS, np.zeros(len(EVALS))),
        "weights_moved": Series(EVALS, np.ones(len(EVALS))),
        "epoch": Series(STEPS, STEPS / PER_EPOCH),
        "lr": Series(STEPS, rate),
        "lr/group": Matrix(STEPS, ("0", "1"), np.column_stack([rate, rate])),
        "clip/norm": Series(STEPS, norm),
        "clip/threshold": Series(STEPS, np.full(N, 2.0)),
        "grad_norm": Series(STEPS, norm),
        "grad_cosine": Series(STEPS, steady(N, 0.25, 0.4, seed)),
        "update_ratio": Series(FULL, decay(len(FULL), 4e-3, 1e-3, 0.1, seed)),
        "weight_norm": Series(FULL, np.linspace(20, 26, len(FULL))),
        "state_nonfinite": Series(FULL, np.zeros(len(FULL))),
    }


def insides() -> dict[str, Series | Matrix]:
    """Gradients, weights, updates, activations, layer by layer."""
    params = list(SHAPES)
    grads = {n: 0.02 * math.sqrt(math.prod(SHAPES[n])) for n in params}
    sizes = {n: norm_of(n) for n in params}
    zero = per(params, 0.0)
    out: dict[str, Series | Matrix] = {
        "grad_norm/param": per(params, grads, 0.15, 0.4),
        "grad_mean/param": per(params, 1e-5, 0.3),
        "grad_std/param": per(params, 0.02, 0.15, 0.4),
        "grad_maxabs/param": per(params, 0.12, 0.15, 0.4),
        "grad_zero/param": per(params, 0.02, 0.1),
        "grad_nonfinite/param": zero,
        "grad_none/param": zero,
        "weight_norm/param": per(params, sizes, 0.001, 1.3),
        "weight_mean/param": per(params, 0.001, 0.1),
        "weight_std/param": per(params, 0.08, 0.001, 1.2),
        "weight_maxabs/param": per(params, {n: 4 * rms(n) for n in params}, 0.001, 1.2),
        "weight_kurtosis/param": per(params, 3.1, 0.02, 1.2),
        "weight_nonfinite/param": zero,
        "weight_tiny/param": per([f"{n}.weight" for n in NORMS], 0.0),
        "weight_twins/param": per(WEIGHTS, 0.0),
        "weight_sigma/param": per(WEIGHTS, {n: rms(n) * (sum(math.sqrt(s) for s in SHAPES[n])) for n in WEIGHTS}, 0.001, 1.5),
        "update_ratio/param": per(params, 2e-3, 0.1, 0.6),
        "lost_updates/param": zero,
        "adam_small_v/param": per(params, 0.001, 0.1),
        "adam_rms/param": per(params, 1.0, 0.15),
        "decay_share/param": per(params, 0.05, 0.1),
        "act_rms/module": per([*LAYERS, *NORMS, *ACTS], 0.9, 0.02, 1.4),
        "act_mean/module": per([*LAYERS, *ACTS], 0.1, 0.1),
        "act_std/module": per([*LAYERS, *ACTS], 0.8, 0.02),
        "act_maxabs/module": per([*LAYERS, *ACTS], 4.5, 0.05, 1.5),
        "act_zero/module": per(ACTS, 0.5, 0.02),
        "act_saturated/module": per(ACTS, 0.02, 0.1),
        "act_nonfinite/module": per([*LAYERS, *ACTS], 0.0),
        "act_limit/module": per([*LAYERS, *ACTS], 1e-4, 0.1),
        "dead_fraction/module": per(ACTS, 0.15, 0.02, 1.2),
        "dead_samples/module": per(ACTS, 6400.0, 0.0),
        "dormant_fraction/module": per(ACTS, 0.18, 0.02, 1.2),
        "effective_rank/module": per(LAYERS, 40.0, 0.02, 0.6),
        "feature_cosine/module": per(LAYERS, 0.2, 0.05, 1.5),
        "bn_mean_gap/module": per(NORMS, 0.05, 0.1),
        "bn_var_gap/module": per(NORMS, 0.08, 0.1),
        "output_std": Series(FULL, np.linspace(0.3, 3.5, len(FULL)) * (1 + noise(len(FULL), 0.03))),
        "output_top_share": Series(FULL, decay(len(FULL), 0.5, 0.14, 0.05)),
        "logit_maxabs": Series(FULL, np.linspace(1.2, 11, len(FULL)) * (1 + noise(len(FULL), 0.03))),
        "logz_mean": Series(FULL, np.linspace(2.3, 5.5, len(FULL)) * (1 + noise(len(FULL), 0.02))),
        "grad_noise_scale": Series(FULL, np.linspace(20, 150, len(FULL)) * (1 + noise(len(FULL), 0.1))),
    }
    for q, z in (
        (0, -4.0),
        (5, -1.6),
        (10, -1.3),
        (25, -0.7),
        (40, -0.25),
        (50, 0.01),
        (60, 0.25),
        (75, 0.7),
        (90, 1.3),
        (95, 1.6),
        (99, 2.3),
    ):
        out[f"weight_q{q:02d}/param"] = per(params, 0.08 * z, 0.01)
    for q, z in ((5, -1.6), (50, 0.01), (95, 1.6)):
        out[f"grad_q{q:02d}/param"] = per(params, 0.02 * z, 0.1)
    return out


def surroundings(seed: int) -> dict[str, Series | Matrix]:
    """Data, loop, time, memory."""
    rng = np.random.default_rng(seed)
    zero, one = Series(STEPS, np.zeros(N)), Series(STEPS, np.ones(N))
    step = 0.02 * (1 + np.abs(noise(N, 0.03, seed)))
    labels = rng.multinomial(BATCH, np.full(CLASSES, 1 / CLASSES), N).astype(float)
    names = tuple(str(c) for c in range(CLASSES))
    epoch_ends = (np.arange(1, N + 1) % PER_EPOCH == 0).astype(float)
    return {
        "batch/size": Series(STEPS, np.full(N, float(BATCH))),
        "batch/input_mean": Series(STEPS, noise(N, 0.02, seed)),
        "batch/input_std": Series(STEPS, steady(N, 1.0, 0.02, seed)),
        "batch/input_min": Series(STEPS, steady(N, -2.8, 0.05, seed)),
        "batch/input_max": Series(STEPS, steady(N, 2.8, 0.05, seed)),
        "batch/input_nonfinite": zero,
        "batch/input_extreme": zero,
        "batch/input_integral": zero,
        "batch/channel_mean": per([str(i) for i in range(8)], 0.01, 0.5),
        "batch/channel_std": per([str(i) for i in range(8)], 1.0, 0.05),
        "batch/labels/class": Matrix(STEPS, names, labels),
        "batch/label_min": zero,
        "batch/label_max": Series(STEPS, np.full(N, CLASSES - 1.0)),
        "batch/valid_targets": one,
        "batch/pad_share": zero,
        "batch/fingerprint": Series(STEPS, rng.integers(0, 2**52, N).astype(float)),
        "batch/repeat": zero,
        "loop/forwards": one,
        "loop/backwards": one,
        "loop/zero_grads": one,
        "loop/stale_grads": zero,
        "loop/empty_step": zero,
        "loop/eval_mode": zero,
        "loop/eval_submodules": zero,
        "loop/scheduler_steps": one,
        "loop/clips": one,
        "time/step": Series(STEPS, step),
        "time/data": Series(STEPS, 0.0005 * (1 + np.abs(noise(N, 0.2, seed)))),
        "time/forward": Series(STEPS, 0.35 * step),
        "time/backward": Series(STEPS, 0.5 * step),
        "time/optimizer": Series(STEPS, 0.1 * step),
        "time/rest": Series(STEPS, 0.01 * step),
        "time/eval": Series(STEPS, 0.08 * epoch_ends),
        "time/checkpoint": Series(STEPS, 0.01 * epoch_ends),
        "time/traindx": Series(STEPS, 0.005 * step),
        "throughput": Series(STEPS, BATCH / step),
        "mem/rss": Series(FULL, np.full(len(FULL), 5e8)),
        "mem/tensors": Series(FULL, np.full(len(FULL), 300.0)),
        "mem/graph_tensors": Series(FULL, np.full(len(FULL), 3.0)),
        "mem/graph_nodes": Series(FULL, np.full(len(FULL), 40.0)),
        "recompiles": Series(FULL, np.zeros(len(FULL))),
        "sync_calls": Series(FULL, np.ones(len(FULL))),
    }


def facts() -> dict[str, Any]:
    order = ["stem"]
    for i in (1, 2, 3):
        order += [f"block{i}", f"block{i}.fc", f"block{i}.norm", f"block{i}.act"]
    kinds = {"fc": "Linear", "norm": "BatchNorm1d", "act": "ReLU", "stem": "Linear", "head": "Linear"}
    outline = [{"name": "", "class": "Net", "params": 60000, "order": 0}]
    for i, name in enumerate([*order, "head"], 1):
        own = sum(math.prod(s) for n, s in SHAPES.items() if n.startswith(f"{name}."))
        outline.append({"name": name, "class": kinds.get(name.rsplit(".", 1)[-1], "Block"), "params": own, "order": i})
    total = sum(math.prod(s) for s in SHAPES.values())
    counts = [N * BATCH // CLASSES] * CLASSES
    return {
        "model.class": "Net",
        "model.params": total,
        "model.trainable": total,
        "model.outline": outline,
        "model.param_shapes": SHAPES,
        "model.param_dtypes": {},
        "model.param_module": {n: "BatchNorm1d" if "norm" in n else "Linear" for n in SHAPES},
        "model.frozen": [],
        "model.frozen_modules": [],
        "model.frozen_later": {},
        "model.unowned": [],
        "model.unowned_share": 0.0,
        "model.foreign_params": 0,
        "model.unreachable": [],
        "model.never_called": [],
        "model.unregistered": {},
        "model.linear_pairs": [],
        "model.tied": [],
        "model.tying_broken": [],
        "model.activations": dict.fromkeys(ACTS, "relu"),
        "model.init_gain": dict.fromkeys(WEIGHTS, 0.6),
        "model.twin_rows": dict.fromkeys(WEIGHTS, 0.0),
        "model.adapters": [],
        "model.norm_gains": [f"{n}.weight" for n in NORMS],
        "model.embeddings": [],
        "optimizer.name": "AdamW",
        "optimizer.count": 1,
        "optimizer.groups": [
            {"lr": 1e-3, "weight_decay": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "params": 5, "low_dim": 0},
            {"lr": 1e-3, "weight_decay": 0.0, "betas": [0.9, 0.999], "eps": 1e-8, "params": 8, "low_dim": 8},
        ],
        "optimizer.duplicates": [],
        "optimizer.empty_groups": [],
        "optimizer.disjoint": False,
        "optimizer.steps": [N],
        "schedule.name": "LambdaLR",
        "schedule.params": {},
        "schedule.before_optimizer": False,
        "schedule.count": 0,
        "schedule.objects": 1,
        "loss.kind": "ce",
        "loss.classes": CLASSES,
        "loss.smoothing": 0.0,
        "loss.reduction": "mean",
        "loss.weighted": False,
        "loss.site": "train.py:40",
        "loss.input_shape": [BATCH, CLASSES],
        "loss.target_shape": [BATCH],
        "loss.target_dtype": "int64",
        "loss.broadcast": False,
        "loss.input_range": [-11.0, 11.0],
        "loss.target_range": [0, CLASSES - 1],
        "loss.target_unique": CLASSES,
        "loss.probabilities": False,
        "loss.log_probabilities": False,
        "loss.column_probabilities": False,
        "loss.unit_interval": False,
        "loss.checked_batches": 120,
        "loss.may_be_negative": False,
        "data.loader": {
            "batch_size": BATCH,
            "shuffle": True,
            "sampler": "RandomSampler",
            "num_workers": 0,
            "drop_last": True,
            "dataset": "TensorDataset",
            "length": PER_EPOCH,
            "samples": PER_EPOCH * BATCH,
        },
        "data.val_loader": {
            "batch_size": 250,
            "shuffle": False,
            "sampler": "SequentialSampler",
            "num_workers": 0,
            "drop_last": False,
            "dataset": "TensorDataset",
            "length": 4,
            "samples": 1000,
        },
        "data.fetched": {"batches": N, "iterators": N // PER_EPOCH},
        "data.steps_per_epoch": PER_EPOCH,
        "data.samples_per_epoch": PER_EPOCH * BATCH,
        "data.unique_share": 1.0,
        "data.seen": {"train": PER_EPOCH * BATCH, "val": 1000},
        "data.shared": 0,
        "data.conflicts": 0,
        "data.duplicate_share": 0.0,
        "data.order_repeats": False,
        "data.same_set": False,
        "data.label_dispersion": 1.01,
        "data.label_dispersion_p": 0.4,
        "data.class_counts": counts,
        "data.val_class_counts": [100 * len(EVALS)] * CLASSES,
        "data.input_stats": {"mean": 0.0, "std": 1.0, "min": -3.0, "max": 3.0, "n": PER_EPOCH * BATCH},
        "data.val_input_stats": {"mean": 0.01, "std": 1.0, "min": -3.0, "max": 3.0, "n": 1000},
        "data.channel_stats": {"mean": [0.0] * 8, "std": [1.0] * 8},
        "data.val_channel_stats": {"mean": [0.02] * 8, "std": [1.0] * 8},
        "data.feature_auc": {str(i): 0.6 for i in range(8)},
        "data.label_probe": {
            "n": 2000,
            "features": 64,
            "kind": "class",
            "score": 0.8,
            "null_mean": 0.1,
            "null_sd": 0.01,
            "permutations": 19,
        },
        "data.val_random": False,
        "data.worker_duplicates": 0,
        "data.brought_by": "loader",
        "amp.autocast": None,
        "amp.scaler": False,
        "amp.half_model": False,
        "amp.half_modules": [],
        "perf.shares": {"train": 0.93, "data": 0.02, "eval": 0.03, "checkpoint": 0.005, "logging": 0.005, "traindx": 0.005},
        "perf.compiled": False,
        "perf.shapes": 2,
        "memory.growth": [],
        "checkpoint.missing": [],
        "checkpoint.saves": 3,
        "seeds": {"python": True, "numpy": True, "torch": True, "cuda": True, "worker": True},
        "rng.used": {"python": False, "numpy": False, "torch": True, "worker": False},
        "deterministic": False,
        "budget.planned_steps": N,
        "finetune": False,
        "rl": False,
        "adversarial": False,
        "curriculum": False,
        "frozen_by_intent": False,
        "log_form": {"loss/train": "raw"},
        "log_interval": 1,
        "device": "cpu",
        "rank": 0,
        "world_size": 1,
        "ended": "exit",
        "blind": {},
        "watched": sorted(signals.EVENTS),
        "cost": {"share": 0.006, "seconds": 0.1, "records": N, "dropped": 0},
    }


def classifier(seed: int = 0) -> Run:
    """A small BatchNorm classifier with AdamW, warm-up, cosine decay and clipping, seen with every probe."""
    events = [Event(int(s) + 1, "epoch", {"index": i + 1}) for i, s in enumerate(EVALS[:-1])]
    events += [Event(int(s), "evaluation", {"samples": 1000, "batches": 4, "seconds": 0.08}) for s in EVALS]
    return Run(
        {**curves(seed), **insides(), **surroundings(seed)}, facts(), tuple(sorted(events, key=lambda e: e.step)), kind="record"
    )


def regression(seed: int = 1) -> Run:
    """The same network on standardised targets under MSE and SGD with momentum."""
    run = classifier(seed)
    gone = (
        "accuracy/",
        "confidence/",
        "eval/recall",
        "eval/support",
        "eval/predicted",
        "batch/labels",
        "logit",
        "logz",
        "output_top",
        "adam_",
        "eval/nll",
        "eval/temp",
    )
    kept = {n: s for n, s in run.signals.items() if not n.startswith(gone)}
    loss = learning(N, 1.05, 0.08, 0.02, seed)
    kept |= {
        "loss/train": Series(STEPS, loss),
        "loss/val": Series(EVALS, np.interp(EVALS, STEPS, learning(N, 1.04, 0.09, 0.0, seed)) + noise(len(EVALS), 0.002, seed)),
        "loss/sample_var": Series(STEPS, np.full(N, BATCH * 0.02**2)),
        "batch/label_mean": Series(STEPS, noise(N, 0.1, seed)),
        "batch/label_std": Series(STEPS, steady(N, 1.0, 0.05, seed)),
        "output_std": Series(FULL, np.linspace(0.2, 0.95, len(FULL))),
    }
    changed = {
        "loss.kind": "mse",
        "loss.classes": None,
        "loss.input_shape": [BATCH, 1],
        "loss.target_shape": [BATCH, 1],
        "loss.target_dtype": "float32",
        "loss.target_integral": False,
        "loss.target_unique": 900,
        "loss.target_range": [-3.1, 3.2],
        "loss.input_range": [-2.9, 3.0],
        "optimizer.name": "SGD",
        "data.class_counts": None,
        "data.val_class_counts": None,
        "data.label_dispersion": None,
        "loss.unreachable_share": 0.0,
    }
    table = {k: v for k, v in {**run.facts, **changed}.items() if v is not None}
    table["data.label_probe"] = {**table["data.label_probe"], "kind": "regression", "score": 0.7, "null_mean": 0.0}
    table["optimizer.groups"] = [{"lr": 0.05, "weight_decay": 1e-4, "momentum": 0.9, "params": 13, "low_dim": 8}]
    unseen = {n: s for n, s in kept.items() if not n.startswith("eval/unweighted")}
    return Run(unseen, table, run.events, kind="record")


def fine_tuning(seed: int = 2) -> Run:
    """A loaded backbone, frozen but for its last block, with a new head."""
    run = classifier(seed)
    frozen = ["stem.weight", "stem.bias", "block1.fc.weight", "block1.fc.bias", "block1.norm.weight"]
    more = {
        "finetune": True,
        "frozen_by_intent": True,
        "model.frozen": frozen,
        "model.frozen_modules": ["stem", "block1"],
        "model.loaded": {"missing": ["head.weight", "head.bias"], "unexpected": [], "unloaded_share": 0.02},
    }
    signals_ = dict(run.signals)
    for name, matrix in run.signals.items():
        if (
            isinstance(matrix, Matrix)
            and name.startswith(("grad_", "update_ratio", "adam_", "decay_"))
            and set(frozen) <= set(matrix.names)
        ):
            values = matrix.values.copy()
            values[:, [matrix.names.index(f) for f in frozen]] = np.nan
            signals_[name] = Matrix(matrix.steps, matrix.names, values)
    asleep = {"loop/eval_submodules": Series(STEPS, np.ones(N))}
    return Run({**signals_, **asleep}, {**run.facts, **more}, run.events, kind="record")


def mixed_precision(seed: int = 3) -> Run:
    """Float16 autocast with a scaler that calibrates at the start and tries a doubling now and then."""
    run = classifier(seed)
    skipped = np.zeros(N)
    skipped[[0, 1, 2, 403, 810]] = 1
    scale = np.full(N, 8192.0)
    scale[:3] = [65536.0, 32768.0, 16384.0]
    norm = run["grad_norm"].values.copy()
    norm[skipped > 0] = np.inf
    more = {"amp/skipped": Series(STEPS, skipped), "amp/scale": Series(STEPS, scale), "grad_norm": Series(STEPS, norm)}
    return Run({**run.signals, **more}, {**run.facts, "amp.autocast": "float16", "amp.scaler": True}, run.events, kind="record")


def data_parallel(seed: int = 4) -> Run:
    """Four ranks with equal weights and gradients, different batches and losses."""
    run = classifier(seed)
    rng = np.random.default_rng(seed)
    ranks = ("0", "1", "2", "3")
    prints = np.repeat(rng.integers(0, 2**52, (len(FULL), 1)).astype(float), 4, axis=1)
    tokens = np.full((N, 4), float(BATCH))
    more: dict[str, Series | Matrix] = {
        "rank/params": Matrix(FULL, ranks, prints),
        "rank/grads": Matrix(FULL, ranks, prints[::-1]),
        "rank/fingerprint": Series(FULL, prints[:, 0]),
        "rank/grad_fingerprint": Series(FULL, prints[::-1, 0]),
        "rank/batch": Matrix(STEPS, ranks, rng.integers(0, 2**52, (N, 4)).astype(float)),
        "rank/loss": Matrix(STEPS, ranks, run["loss/train"].values[:, None] + rng.normal(0, 0.05, (N, 4))),
        "rank/step_time": Matrix(STEPS, ranks, 0.02 * (1 + np.abs(rng.normal(0, 0.03, (N, 4))))),
        "rank/tokens": Matrix(STEPS, ranks, tokens),
        "rank/grad_norm": Matrix(STEPS, ranks, np.repeat(run["grad_norm"].values[:, None], 4, axis=1)),
    }
    return Run({**run.signals, **more}, {**run.facts, "world_size": 4, "distributed": "ddp"}, run.events, kind="record")


def special(seed: int = 5) -> Run:
    """The classifier beside healthy signals of every special regime."""
    run = classifier(seed)
    bins = [f"{i}" for i in range(8)]
    columns = np.column_stack([learning(len(FULL), 1.0 - 0.1 * i, 0.3 - 0.03 * i, 0.01, i) for i in range(8)])
    more: dict[str, Series | Matrix] = {
        "gan/d_accuracy": Series(STEPS, steady(N, 0.72, 0.05)),
        "gan/d_real": Series(STEPS, steady(N, 0.65, 0.05)),
        "gan/d_fake": Series(STEPS, steady(N, 0.35, 0.05)),
        "gan/g_grad_norm": Series(STEPS, steady(N, 1.0, 0.2)),
        "gan/fake_diversity": Series(FULL, np.linspace(0.1, 0.9, len(FULL))),
        "vae/kl_active": Series(FULL, np.linspace(0.9, 0.5, len(FULL))),
        "rl/entropy": Series(STEPS, decay(N, 1.4, 0.4, 0.05)),
        "rl/kl": Series(STEPS, steady(N, 0.01, 0.2)),
        "rl/explained_variance": Series(FULL, np.linspace(-0.2, 0.8, len(FULL))),
        "ssl/embedding_spread": Series(FULL, steady(len(FULL), 0.85, 0.03)),
        "expert_load/expert": Matrix(FULL, tuple(f"moe/{i}" for i in range(8)), np.full((len(FULL), 8), 0.125)),
        "attn_entropy/module": per(["attn1", "attn2"], 0.35, 0.05),
        "attn_logit_max/module": per(["attn1", "attn2"], 12.0, 0.05, 2.0),
        "row_norm_p01/param": per(["emb"], 0.8, 0.01),
        "row_norm_p50/param": per(["emb"], 1.0, 0.01),
        "row_norm_p99/param": per(["emb"], 1.6, 0.01),
        "diffusion/loss/bin": Matrix(FULL, tuple(bins), columns),
    }
    return Run({**run.signals, **more}, run.facts, run.events, kind="record")


HEALTHY = [classifier, regression, fine_tuning, mixed_precision, data_parallel, special]


@pytest.mark.parametrize("make", HEALTHY, ids=[m.__name__ for m in HEALTHY])
@pytest.mark.parametrize("seed", [0, 7])
def test_no_rule_raises_an_alarm_on_a_healthy_run(make: Any, seed: int) -> None:
    run = make(seed)
    outcomes = {code: rule.outcome(run) for code, rule in catalogue().items()}
    broken = {code: o.reason for code, o in outcomes.items() if o.status is Status.BROKEN}
    alarms = [f"{f.code}: {f.message}" for o in outcomes.values() for f in o.findings if f.severity > Severity.INFO]
    assert not broken
    assert not alarms


def test_the_names_of_these_runs_are_in_the_vocabulary() -> None:
    for make in HEALTHY:
        run = make()
        assert not [n for n in run.signals if signals.spec(n) is None]
        assert not [k for k in run.facts if k not in signals.FACTS]


def test_most_rules_can_look_at_a_fully_recorded_run() -> None:
    """A healthy run that most rules cannot see would prove nothing."""
    families = ("WIRE", "NUMR", "ACTV", "WGHT", "GRAD", "OPTM", "LOSS", "EVAL", "DATA")
    run = classifier()
    outcomes = [rule.outcome(run) for rule in catalogue().values() if rule.family in families]
    blind = {o.code: o.reason for o in outcomes if o.status is Status.BLIND}
    assert len(blind) <= 0.2 * len(outcomes), blind


@pytest.mark.parametrize("path", sorted(RUNS.glob("*.npz")), ids=lambda p: p.stem)
def test_no_rule_breaks_when_all_but_the_loss_was_read_only_at_the_start(path: Path) -> None:
    """So the record of a run looks whose full steps are too dear for its budget."""
    run = load(path)
    start = run.between(hi=20)
    thin = replace(run, signals={k: v if k.startswith("loss/") else start.signals.get(k, v) for k, v in run.signals.items()})
    broken = [o for o in diagnose(thin).outcomes if o.status is Status.BROKEN]
    assert not broken, broken[0].reason
