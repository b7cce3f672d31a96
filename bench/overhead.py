"""What observing costs: step time with and without, interleaved on one model, beside what traindx accounts for itself.

    python bench/overhead.py [--rounds 6] [--models mlp,cnn,gpt,many] [--instruments default,full,…] [-o FILE]

Each round runs blocks in the order A B B A (A bare, B observed) on ONE model instance, so that layout and warm-up are the
same for both; the ratio of a round is median(B steps) / median(A steps); reported are the median over rounds and its
standard error (1.2533·MAD-σ/√rounds), an A/A null, and the self-accounted share (`cost.share`, which counts from step 20).
An A/B ratio cannot certify less than 1-2 % on a busy machine; the self-accounted share can. Peers are optional: an
instrument whose package is not installed is left out and named in the result.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from traindx.probes.attach import attach, detach
from traindx.probes.recorder import Recorder

Step = Callable[[], None]
WARM = 24  # steps of an observed block that are not timed: the first 20 are always read in full


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


MODELS = {"mlp": (mlp, 60), "cnn": (cnn, 10), "gpt": (gpt, 8), "many": (many, 20)}  # timed steps of a block


# -- the instruments


@contextmanager
def nothing(model: nn.Module, optimizer: Any):
    yield {}


def traindx(budget: float | None) -> Callable[..., AbstractContextManager[Any]]:
    @contextmanager
    def watching(model: nn.Module, optimizer: Any):
        recorder = Recorder(_Nowhere(), budget=budget)
        observer = attach(recorder, models=[model], optimizers=[optimizer])
        out: dict[str, float] = {}
        try:
            yield out
        finally:
            out.update(recorder.governor.cost())
            detach(observer)
            recorder.close()

    return watching


class _Nowhere:
    """A sink that takes everything and keeps nothing: the record's own cost is measured in bench/record_speed."""

    def write(self, *args: Any) -> None: ...
    def names(self, *args: Any) -> None: ...
    def fact(self, *args: Any) -> None: ...
    def event(self, *args: Any) -> None: ...
    def flush(self) -> None: ...
    def close(self, how: str) -> None: ...


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
    import tempfile

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


@contextmanager
def wandb_watch(model: nn.Module, optimizer: Any):
    import wandb

    run = wandb.init(mode="offline", project="overhead")
    wandb.watch(model, log="all", log_freq=1)
    yield {}
    wandb.unwatch(model)
    run.finish(quiet=True)


INSTRUMENTS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "null": (nothing, None),
    "default": (traindx(0.01), None),
    "full": (traindx(None), None),
    "naive-item": (naive, None),
    "detect-anomaly": (anomaly, None),
    "tb-histograms": (histograms, "tensorboard"),
    "wandb-watch": (wandb_watch, "wandb"),
}


# -- the measurement


def timed(step: Step, n: int) -> list[float]:
    out = []
    for _ in range(n):
        begun = time.perf_counter()
        step()
        out.append(time.perf_counter() - begun)
    return out


def measure(make: Callable[[], Any], steps: int, instrument: Callable[..., Any], rounds: int) -> dict[str, Any]:
    """Ratio of step times, its error, and what the instrument says it spent."""
    torch.manual_seed(0)
    model, optimizer, step = make()
    timed(step, 5)
    medians, means, shares, bare = [], [], [], []
    for _ in range(rounds):
        first = timed(step, steps)
        with instrument(model, optimizer) as told:
            timed(step, WARM if instrument is not nothing else 1)
            watched = timed(step, 2 * steps)
        last = timed(step, steps)
        plain = first + last
        medians.append(statistics.median(watched) / statistics.median(plain))
        means.append(statistics.fmean(watched) / statistics.fmean(plain))
        bare.append(statistics.median(plain))
        if "share" in told:
            shares.append(told["share"])
    out = {"ratio": _typical(medians), "ratio_se": _error(medians), "mean_ratio": _typical(means), "bare_ms": 1e3 * min(bare)}
    if shares:
        out["self_share"] = statistics.fmean(shares)
    return out


def _typical(values: list[float]) -> float:
    return statistics.median(values)


def _error(values: list[float]) -> float:
    middle = statistics.median(values)
    spread = 1.4826 * statistics.median(abs(v - middle) for v in values)
    return 1.2533 * spread / len(values) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--instruments", default=",".join(INSTRUMENTS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "overhead.json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    results: dict[str, Any] = {}
    left_out = []
    print(f"{'instrument':16s}{'model':8s}{'ratio':>8s}{'± se':>8s}{'mean':>8s}{'own %':>8s}{'bare ms':>9s}")
    for name in args.instruments.split(","):
        instrument, package = INSTRUMENTS[name]
        if package is not None and importlib.util.find_spec(package) is None:
            left_out.append(name)
            continue
        for kind in args.models.split(","):
            make, steps = MODELS[kind]
            one = measure(make, steps, instrument, args.rounds)
            results.setdefault(name, {})[kind] = one
            own = f"{100 * one['self_share']:8.2f}" if "self_share" in one else f"{'':8s}"
            print(
                f"{name:16s}{kind:8s}{one['ratio']:8.3f}{one['ratio_se']:8.3f}{one['mean_ratio']:8.3f}{own}{one['bare_ms']:9.2f}",
                flush=True,
            )
    about = {"torch": torch.__version__, "python": platform.python_version(), "threads": args.threads, "rounds": args.rounds}
    about["load"] = os.getloadavg()[0]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"about": about, "left_out": left_out, "results": results}, indent=1) + "\n")
    print(f"written to {args.output}" + (f"; not installed: {', '.join(left_out)}" if left_out else ""))


if __name__ == "__main__":
    main()
