"""What observing costs: step time with and without, interleaved on one model, beside what traindx accounts for itself.

    python bench/overhead.py [--seconds 60] [--models mlp,cnn,gpt,many] [--instruments default,full,…] [-o FILE]

Each round runs blocks in the order A B B A (A bare, B observed) on ONE model instance, so that layout and warm-up are the
same for both; the ratio of a round is median(B steps) / median(A steps); reported are the median over rounds and its
standard error (1.2533·MAD-σ/√rounds), an A/A null, and the ratio of means, which full steps are part of. traindx is attached
once, as `traindx.watch` does it (forensics and a record on disk included), and its patches are lifted for the A blocks; it
is measured once its start (the first 20 steps and one second of its own) is over, or after half of `--seconds`.
`own %` is what it accounts for itself in as long a stretch without blocks, after them: putting patches on and off makes the
interpreter forget what it has learned about both. `start s` is what it spent before. An A/B ratio cannot certify less than
1-2 % on a busy machine; the self-accounted share can. Peers are optional: one that is not installed is left out and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from traindx.probes.drive.patches import PATCHES
from traindx.probes.drive.plan import DENSE

Step = Callable[[], None]
MOST_ROUNDS = 40


# -- the models of reference/performance.md


def mlp() -> tuple[nn.Module, Any, Step]:
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return _job(model, torch.optim.Adam(model.parameters(), 1e-3), torch.randn(128, 784), torch.randint(0, 10, (128,)))


class Res(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.c2, self.b2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.short = nn.Sequential() if a == b else nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.b2(self.c2(self.act(self.b1(self.c1(x))))) + self.short(x))


def cnn() -> tuple[nn.Module, Any, Step]:
    blocks = [
        Res(a, b, s)
        for a, b, s in [(16, 16, 1)] * 3 + [(16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)]
    ]
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    return _job(
        model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
    )


class Block(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.n1, self.n2, self.qkv, self.proj = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self, v: int = 4096, d: int = 256, t: int = 128, layers: int = 6) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(v, d), nn.Embedding(t, d)
        self.blocks = nn.ModuleList(Block(d, 8) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, v, bias=False)

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


def gpt() -> tuple[nn.Module, Any, Step]:
    model = GPT()
    return _job(
        model, torch.optim.AdamW(model.parameters(), 3e-4), torch.randint(0, 4096, (8, 128)), torch.randint(0, 4096, (1024,))
    )


def many() -> tuple[nn.Module, Any, Step]:
    model = nn.Sequential(
        *(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64)) for _ in range(200)), nn.LayerNorm(64), nn.Linear(64, 10)
    )
    return _job(model, torch.optim.AdamW(model.parameters(), 1e-3), torch.randn(32, 64), torch.randint(0, 10, (32,)))


def _job(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[nn.Module, Any, Step]:
    def step() -> None:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return model, optimizer, step


MODELS = {"mlp": (mlp, 20), "cnn": (cnn, 3), "gpt": (gpt, 2), "many": (many, 6)}  # timed steps of an A block


# -- the instruments


@contextmanager
def nothing(model: nn.Module, optimizer: Any):
    yield {}


class Watched:
    """traindx as a user has it, with a switch."""

    def __init__(self, model: nn.Module, optimizer: Any, budget: float | None) -> None:
        import traindx

        self._folder = tempfile.TemporaryDirectory()
        self.dx = traindx.watch(model, optimizer, dir=Path(self._folder.name) / "run", budget=budget)
        self.recorder, self.stage = self.dx._recorder, self.dx._observer.follower.stage
        self._back: Callable[[], None] | None = None

    def off(self) -> None:
        """Take the patches back; what remains is two empty hooks of the optimizer."""
        if PATCHES.skip is not None:
            PATCHES.skip.wake()
        self.recorder.off, self._back = True, PATCHES.lift()

    def on(self) -> None:
        self._back()
        self.recorder.off, self.stage.last_end = False, time.perf_counter()

    def close(self) -> None:
        self.dx.close()
        self._folder.cleanup()


def traindx_(budget: float | None) -> Callable[..., Watched]:
    return lambda model, optimizer: Watched(model, optimizer, budget)


@contextmanager
def naive(model: nn.Module, optimizer: Any):
    """`.norm().item()` of every gradient after each backward."""
    log: list[float] = []
    hook = optimizer.register_step_pre_hook(lambda *a: log.extend(p.grad.norm(2).item() for _, p in model.named_parameters()))
    yield {}
    hook.remove()


@contextmanager
def anomaly(model: nn.Module, optimizer: Any):
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        yield {}


@contextmanager
def histograms(model: nn.Module, optimizer: Any):
    """TensorBoard histograms of weights and gradients every 50 steps."""
    from torch.utils.tensorboard import SummaryWriter

    count = [0]
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)

        def hook(*args: Any) -> None:
            count[0] += 1
            if count[0] % 50 == 0:
                for name, p in model.named_parameters():
                    writer.add_histogram(name, p, count[0])
                    writer.add_histogram(f"{name}.grad", p.grad, count[0])

        handle = optimizer.register_step_pre_hook(hook)
        yield {}
        handle.remove()
        writer.close()


def wandb_watch(**settings: Any) -> Callable[..., Any]:
    @contextmanager
    def watching(model: nn.Module, optimizer: Any):
        import wandb

        with tempfile.TemporaryDirectory() as folder:
            run = wandb.init(
                mode="offline", project="overhead", dir=folder, settings=wandb.Settings(console="off", silent=True)
            )
            wandb.watch(model, **settings)
            yield {}
            wandb.unwatch(model)
            run.finish()

    return watching


@contextmanager
def trainscope(model: nn.Module, optimizer: Any):
    from trainscope import TrainScope, TrainScopeConfig

    with tempfile.TemporaryDirectory() as folder:
        tool = TrainScope(model, optimizer, config=TrainScopeConfig(run_dir=folder)).attach()
        hook = optimizer.register_step_post_hook(lambda *a: tool.step(1.0))
        yield {}
        hook.remove()
        tool.detach()


@contextmanager
def torchmortem(model: nn.Module, optimizer: Any):
    from torchmortem import Autopsy

    tool = Autopsy(model, optimizer=optimizer)
    tool.attach()
    hook = optimizer.register_step_post_hook(lambda *a: tool.step(loss=1.0))
    yield {}
    hook.remove()
    tool.detach()


@contextmanager
def torch_audit(model: nn.Module, optimizer: Any):
    from torch_audit import autopatch

    tool = autopatch(model, optimizer=optimizer, every_n_steps=20, reporters=[], fail_level="FATAL")
    yield {}
    tool.finish(report=False)
    tool.unpatch()


INSTRUMENTS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "null": (nothing, None),
    "default": (traindx_(0.01), None),
    "full": (traindx_(None), None),
    "naive-item": (naive, None),
    "detect-anomaly": (anomaly, None),
    "tb-histograms": (histograms, "tensorboard"),
    "wandb-watch": (wandb_watch(), "wandb"),
    "wandb-watch-all": (wandb_watch(log="all", log_freq=1), "wandb"),
    "torchmortem": (torchmortem, "torchmortem"),
    "trainscope": (trainscope, "trainscope"),
    "torch-audit": (torch_audit, "torch_audit"),
}


# -- the measurement


def timed(step: Step, n: int) -> list[float]:
    out = []
    for _ in range(n):
        begun = time.perf_counter()
        step()
        out.append(time.perf_counter() - begun)
    return out


def measure(make: Callable[[], Any], steps: int, instrument: Callable[..., Any], seconds: float) -> dict[str, Any]:
    """Ratio of step times, its error, and what the instrument says it spent; takes about `seconds`."""
    torch.manual_seed(0)
    model, optimizer, step = make()
    timed(step, 5)
    made = instrument(model, optimizer)
    if isinstance(made, Watched):
        return _measure_watched(made, step, steps, seconds)
    rounds: list[tuple[float, float, float]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < 3 or (time.perf_counter() < end and len(rounds) < MOST_ROUNDS):
        first = timed(step, steps)
        with instrument(model, optimizer):
            timed(step, 2)
            watched = timed(step, 2 * steps)
        rounds.append(_round(first + timed(step, steps), watched))
    return _summed(rounds)


def _measure_watched(watched: Watched, step: Step, steps: int, seconds: float) -> dict[str, Any]:
    end = time.perf_counter() + seconds
    costs = watched.recorder.costs
    while costs.steps < DENSE and time.perf_counter() < end - seconds / 2:
        step()
    started, start_s = costs.full_steps, costs.spent_s
    rounds: list[tuple[float, float, float]] = []
    while len(rounds) < 3 or (time.perf_counter() < end and len(rounds) < MOST_ROUNDS):
        watched.off()
        first = timed(step, steps)
        watched.on()
        seen = timed(step, 2 * steps)
        watched.off()
        rounds.append(_round(first + timed(step, steps), seen))
        watched.on()
    out = _summed(rounds)
    spent, elapsed, end = costs.spent_s, costs.elapsed_s, time.perf_counter() + seconds
    while time.perf_counter() < end:
        step()
    spent, elapsed = costs.spent_s - spent, costs.elapsed_s - elapsed
    out |= {
        "self_share": spent / elapsed,
        "start_s": start_s,
        "start_full_steps": started,
        "still_starting": costs.steps < DENSE,
    }
    watched.close()
    return out


def _round(bare: list[float], watched: list[float]) -> tuple[float, float, float]:
    ratio = statistics.median(watched) / statistics.median(bare)
    return ratio, statistics.fmean(watched) / statistics.fmean(bare), statistics.median(bare)


def _summed(rounds: list[tuple[float, float, float]]) -> dict[str, Any]:
    medians, means, bare = (list(column) for column in zip(*rounds, strict=True))
    return {
        "ratio": statistics.median(medians), "ratio_se": _error(medians),
        "mean_ratio": statistics.median(means), "mean_ratio_se": _error(means),
        "bare_ms": 1e3 * min(bare), "rounds": len(rounds),
    }  # fmt: skip


def _error(values: list[float]) -> float:
    middle = statistics.median(values)
    spread = 1.4826 * statistics.median(abs(v - middle) for v in values)
    return 1.2533 * spread / len(values) ** 0.5


def page(found: dict[str, Any]) -> str:
    """The table of the documentation."""
    models = list(dict.fromkeys(m for rows in found["results"].values() for m in rows))
    about = found["about"]
    lines = [
        f"Step-time ratio to the bare loop, A/B/B/A on one model, median over rounds ± standard error (mean ratio in brackets); "
        f"torch {about['torch']}, {about['threads']} thread(s), load average {about['load']:.1f} on {about['cores']} cores.", "",
        "| instrument | " + " | ".join(f"{m} ({_bare(found, m):.1f} ms)" for m in models) + " |", "|---|" + "---|" * len(models),
    ]  # fmt: skip
    for name, rows in found["results"].items():
        lines.append(f"| {name} | " + " | ".join(_cell(rows[m]) if m in rows else "" for m in models) + " |")
    own = {name: rows for name, rows in found["results"].items() if any("self_share" in r for r in rows.values())}
    lines += [
        "",
        "What traindx accounts for itself: share of the step time in an uninterrupted stretch, and seconds at the start.",
        "",
    ]
    lines += ["| traindx | " + " | ".join(models) + " |", "|---|" + "---|" * len(models)]
    for name, rows in own.items():
        cells = [f"{100 * rows[m]['self_share']:.2f} %, {rows[m]['start_s']:.2f} s" if m in rows else "" for m in models]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if "note" in about:
        lines += ["", about["note"]]
    if found["left_out"]:
        lines += ["", f"Not measured in this run (not installed, or left out): {', '.join(found['left_out'])}."]
    return "\n".join(lines) + "\n"


def _bare(found: dict[str, Any], model: str) -> float:
    return min((rows[model]["bare_ms"] for rows in found["results"].values() if "bare_ms" in rows.get(model, {})), default=0.0)


def _cell(one: dict[str, Any]) -> str:
    if "failed" in one:
        return f"breaks the training: {one['failed']}"
    return f"{one['ratio']:.3f} ± {one['ratio_se']:.3f} ({one['mean_ratio']:.3f} ± {one['mean_ratio_se']:.3f})"


def _line(one: dict[str, Any]) -> str:
    if "failed" in one:
        return f"  {one['failed']}"
    own = f"{100 * one['self_share']:8.2f}{one['start_s']:9.2f}" if "self_share" in one else " " * 17
    return f"{one['ratio']:8.3f}{one['ratio_se']:8.3f}{one['mean_ratio']:8.3f}{own}{one['bare_ms']:9.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each instrument on each model")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--instruments", default=",".join(INSTRUMENTS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "overhead.json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    about = {"torch": torch.__version__, "python": platform.python_version(), "threads": args.threads}
    about |= {"seconds": args.seconds, "load": os.getloadavg()[0], "cores": os.cpu_count()}
    results: dict[str, Any] = {}
    left_out = []
    print(f"{'instrument':16s}{'model':8s}{'ratio':>8s}{'± se':>8s}{'mean':>8s}{'own %':>8s}{'start s':>9s}{'bare ms':>9s}")
    for name in args.instruments.split(","):
        instrument, package = INSTRUMENTS[name]
        if package is not None and importlib.util.find_spec(package) is None:
            left_out.append(name)
            continue
        for kind in args.models.split(","):
            make, steps = MODELS[kind]
            try:
                one = measure(make, steps, instrument, args.seconds)
            except RuntimeError as error:  # a hook that autograd refuses
                one = {"failed": f"{type(error).__name__}: {str(error).split('.')[0]}"}
            results.setdefault(name, {})[kind] = one
            print(f"{name:16s}{kind:8s}{_line(one)}", flush=True)
            found = {"about": about, "left_out": left_out, "results": results}
            args.output.parent.mkdir(parents=True, exist_ok=True)
            args.output.write_text(json.dumps(found, indent=1) + "\n")
            args.output.with_suffix(".md").write_text(page(found))
    print(f"written to {args.output}" + (f"; not installed: {', '.join(left_out)}" if left_out else ""))


if __name__ == "__main__":
    main()
