"""Did it learn? Sweeps of small trainings whose truth is measured, judged as CSV, event files, console text and live records.

python -m bench.sweeps train             train what is not there yet (a few CPU minutes; curves and records in bench/work/)
python -m bench.sweeps judge             judge the open half and print the figures
python -m bench.sweeps judge --final     judge the sealed half; every use is written to bench/results/sweeps_final.log

In the open half twelve data sets (five of regression or sequence prediction) and those of the coins that were judged before; in
the sealed one the twelve that a new coin draws (bench/drawn.py); each × optimizers × rates × depth × activation × batch. The truth of a run is (validation metric − chance) /
(best of the sweep − chance): at most 0.05 is *at chance*, at least 0.8 *learned well*. The sealed half is neither trained nor
judged without --final. Draw another COIN before the judgement changes again, once it was.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import importlib
import itertools
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from bench.drawn import Task, accuracy, auc, cross_entropy, drawn, r2, split
from torch import Tensor, nn
from torch.nn import functional as F

WORK = Path(__file__).parent / "work" / "sweeps"
RESULTS = Path(__file__).parent / "results"
FORMATS = ("csv", "events", "console", "live")
AT_CHANCE, LEARNED_WELL = 0.05, 0.8
RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 30.0)
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
}
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU}


@dataclass(frozen=True)
class Setup:
    """One configuration; its name decides its half."""

    data: str
    optimizer: str
    lr: float
    depth: int
    activation: str
    batch: int

    @property
    def name(self) -> str:
        return f"{self.data}-{self.optimizer}-lr{self.lr:g}-d{self.depth}-{self.activation}-b{self.batch}"

    @property
    def sealed(self) -> bool:
        return self.data in SEALED


def _skill(classes: int) -> Callable[[Tensor, Tensor], float]:
    return lambda out, y: (accuracy(out, y) - 1 / classes) / (1 - 1 / classes)


def digits() -> Task:
    from sklearn.datasets import load_digits

    x, y = (torch.tensor(a) for a in load_digits(return_X_y=True))
    return split(
        (x.float() - 4.9) / 6.0,
        y,
        500,
        outputs=10,
        loss=cross_entropy,
        truth=_skill(10),
        shown="val_acc",
        show=accuracy,
        epochs=20,
    )


def spirals() -> Task:
    g = torch.Generator().manual_seed(1)
    arm = torch.arange(1500) % 3
    r = torch.rand(1500, generator=g)
    angle = 4 * r + arm * 2 * math.pi / 3 + 0.15 * torch.randn(1500, generator=g)
    x = torch.stack([r * angle.cos(), r * angle.sin()], 1) * 2
    return split(x, arm, 500, outputs=3, loss=cross_entropy, truth=_skill(3), shown="val_accuracy", show=accuracy, epochs=30)


def rare() -> Task:
    """Two classes, one of them 15 % of the samples: the log shows the area under the curve."""
    g = torch.Generator().manual_seed(2)
    x = torch.randn(1500, 12, generator=g)
    score = x[:, 0] * x[:, 1] + x[:, 2] - 0.5 * x[:, 3] ** 2 + 0.3 * torch.randn(1500, generator=g)
    y = (score > score.quantile(0.85)).float()[:, None]
    return split(
        x, y, 500, outputs=1, loss=F.binary_cross_entropy_with_logits, truth=lambda o, t: 2 * auc(o, t) - 1, shown="val_auc",
        show=auc, epochs=20,
    )  # fmt: skip


def friedman() -> Task:
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(1500, noise=1.0, random_state=3)
    y = (y - y.mean()) / y.std()
    return split(
        torch.tensor(x).float(), torch.tensor(y).float()[:, None], 500, outputs=1, loss=F.mse_loss, truth=r2, shown="val_r2",
        show=r2, epochs=25,
    )  # fmt: skip


def forecast() -> Task:
    """The next value of a noisy wave from the last 16; the target has its own unit and the log shows the absolute error."""
    g = torch.Generator().manual_seed(4)
    t = torch.arange(1700).float()
    wave = torch.sin(t / 5) + 0.6 * torch.sin(t / 2.3 + 1) + 0.25 * torch.randn(1700, generator=g)
    x = wave.unfold(0, 16, 1)[:1500]
    y = 3 * wave[16:1516, None] + 1
    return split(
        x,
        y,
        500,
        outputs=1,
        loss=F.mse_loss,
        truth=r2,
        shown="val_mae",
        show=lambda o, t: float((o - t).abs().mean()),
        epochs=15,
    )


def letters() -> Task:
    """Next token of a Markov chain over 20 letters that are equally frequent: the log shows the perplexity."""
    g = torch.Generator().manual_seed(5)
    step = torch.stack([torch.randperm(20, generator=g) for _ in range(3)])
    seq = torch.empty(400, 17, dtype=torch.long)
    seq[:, 0] = torch.randint(20, (400,), generator=g)
    for i in range(16):
        pick = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), 400, True, generator=g)
        seq[:, i + 1] = step[pick, seq[:, i]]

    def skill(out: Tensor, y: Tensor) -> float:
        return 1 - float(cross_entropy(out, y)) / math.log(20)

    def perplexity(out: Tensor, y: Tensor) -> float:
        return float(cross_entropy(out, y).exp())

    return split(
        seq[:, :-1], seq[:, 1:], 100, outputs=20, loss=cross_entropy, truth=skill, shown="val_ppl", show=perplexity, epochs=15,
        tokens=20,
    )  # fmt: skip


def motifs() -> Task:
    """Which of four letters occurs twice in a row somewhere in a sequence of 12."""
    g = torch.Generator().manual_seed(6)
    y = torch.arange(1500) % 4
    x = torch.randint(4, 12, (1500, 12), generator=g)
    at = torch.randint(0, 11, (1500,), generator=g)
    rows = torch.arange(1500)
    x[rows, at] = y
    x[rows, at + 1] = y
    return split(
        x, y, 500, outputs=4, loss=cross_entropy, truth=_skill(4), shown="val_acc", show=accuracy, epochs=14, tokens=12
    )


TASKS: dict[str, Callable[[], Task]] = {
    "digits": digits, "spirals": spirals, "rare": rare, "friedman": friedman, "forecast": forecast, "letters": letters,
    "motifs": motifs,
}  # fmt: skip


def wine() -> Task:
    """Three unequal classes of few samples; the log shows the F1 score."""
    from sklearn.datasets import load_wine

    x, y = (torch.tensor(a) for a in load_wine(return_X_y=True))
    x = (x.float() - x.float().mean(0)) / x.float().std(0)
    x, y = x.repeat(6, 1) + 0.5 * torch.randn(len(x) * 6, 13, generator=torch.Generator().manual_seed(21)), y.repeat(6)

    def recall(out: Tensor, t: Tensor) -> float:
        said = out.argmax(-1)
        return statistics.fmean(float((said[t == k] == k).float().mean()) for k in range(3))

    def f1(out: Tensor, t: Tensor) -> float:
        said = out.argmax(-1)
        hits = [(float(((said == k) & (t == k)).sum()), float((said == k).sum() + (t == k).sum())) for k in range(3)]
        return statistics.fmean(2 * hit / total for hit, total in hits)

    return split(
        x, y, 300, outputs=3, loss=cross_entropy, truth=lambda o, t: (recall(o, t) - 1 / 3) * 1.5, shown="val_f1", show=f1,
        epochs=18,
    )  # fmt: skip


def diabetes() -> Task:
    """A target in its own unit, half of which cannot be told: the log shows the root of the squared error."""
    from sklearn.datasets import load_diabetes

    x, y = (torch.tensor(a).float() for a in load_diabetes(return_X_y=True))
    return split(
        x * 20, y[:, None] / 40, 140, outputs=1, loss=F.mse_loss, truth=r2, shown="val_rmse",
        show=lambda o, t: float(F.mse_loss(o, t).sqrt()), epochs=40,
    )  # fmt: skip


def rings() -> Task:
    """Two classes, equally frequent: inside or outside of a ring."""
    g = torch.Generator().manual_seed(22)
    x = torch.randn(1400, 2, generator=g)
    y = ((x**2).sum(1) > 2 * math.log(2)).long()
    return split(x, y, 400, outputs=2, loss=cross_entropy, truth=_skill(2), shown="val_accuracy", show=accuracy, epochs=16)


def parity() -> Task:
    """Which of six remainders the sum of two digits leaves, read as tokens; the log shows the error rate in percent."""
    g = torch.Generator().manual_seed(23)
    x = torch.randint(0, 12, (1600, 2), generator=g)
    return split(
        x, x.sum(1) % 6, 400, outputs=6, loss=cross_entropy, truth=_skill(6), shown="val_error",
        show=lambda o, t: 100 * (1 - accuracy(o, t)), epochs=24, tokens=12,
    )  # fmt: skip


def decay() -> Task:
    """How fast a noisy curve falls: the log shows no metric but the loss itself."""
    g = torch.Generator().manual_seed(24)
    y = 0.2 + torch.rand(1400, 1, generator=g)
    x = (-y * torch.arange(24) / 4).exp() + 0.15 * torch.randn(1400, 24, generator=g)
    return split(
        x, y, 400, outputs=1, loss=F.mse_loss, truth=r2, shown="val_mse", show=lambda o, t: float(F.mse_loss(o, t)), epochs=20
    )


OPENED = ("wine", "diabetes", "rings", "parity", "decay")  # sealed until 2026-11-18
TASKS |= {"wine": wine, "diabetes": diabetes, "rings": rings, "parity": parity, "decay": decay}
OPEN_COINS = ("83332aa7", "d17ff787")  # judged once, on 2026-11-18 and on 2026-11-20
COIN = "3cff7696"  # drawn by a random number, not trained yet; whoever has judged it draws another
TASKS |= {name: task for coin in OPEN_COINS for name, task in drawn(coin).items()}
SEALED = drawn(COIN)
TASKS |= SEALED


class Net(nn.Module):
    """A plain net of so many layers: over features, over each token (a language model) or over a recurrent reading."""

    def __init__(self, task: Task, depth: int, activation: str, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(task.tokens, width) if task.tokens else None
        self.read = nn.GRU(width, width, batch_first=True) if task.tokens and task.y.ndim == 1 else None
        sizes = [width if task.tokens else task.x.shape[-1], *[width] * depth]
        layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), ACTIVATIONS[activation]())]
        self.body = nn.Sequential(*layers, nn.Linear(width, task.outputs))

    def forward(self, x: Tensor) -> Tensor:
        if self.embed is not None:
            x = self.embed(x)
        if self.read is not None:
            x = self.read(x)[0][:, -1]
        return self.body(x)


def setups() -> list[Setup]:
    """The sweep: so many configurations of every data set, drawn once and for all, every rate equally often."""
    out = []
    for data in TASKS:
        draw = random.Random(f"sweep {data}")
        rates = [RATES[i % len(RATES)] for i in range(18 if "_" in data else 40)]
        for lr in rates:
            out.append(
                Setup(
                    data, draw.choice(list(OPTIMIZERS)), lr, draw.choice((1, 2, 3, 8)), draw.choice(list(ACTIVATIONS)),
                    draw.choice((32, 64, 256)),
                )
            )  # fmt: skip
    return sorted({*out, *map(reference, TASKS)}, key=lambda s: s.name)


def reference(data: str) -> Setup:
    """What usually learns, so that the best of a sweep is no accident of how much of it was trained."""
    return Setup(data, "adam", 3e-3, 2, "relu", 32)


def train(setup: Setup, record: Path | None) -> dict[str, Any]:
    """One training, watched where a folder is given; its curves and how much it learned."""
    torch.set_num_threads(1)
    task = TASKS[setup.data]()
    torch.manual_seed(int(hashlib.sha256(setup.name.encode()).hexdigest()[:6], 16))
    model = Net(task, setup.depth, setup.activation)
    optimizer = OPTIMIZERS[setup.optimizer](model.parameters(), lr=setup.lr)
    dx = importlib.import_module("traindx").watch(model, optimizer, dir=str(record)) if record else None
    steps: list[float] = []
    epochs: list[dict[str, float]] = []
    for epoch in range(task.epochs):
        model.train()
        losses = []
        for part in torch.randperm(len(task.x)).split(setup.batch):
            loss = task.loss(model(task.x[part]), task.y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            out = model(task.xv)
            val = task.loss(out, task.yv).item()
        steps += losses
        row = {"epoch": epoch, "step": len(steps), "train_loss": statistics.fmean(losses), "val_loss": val}
        epochs.append({**row, task.shown: task.show(out, task.yv)} if task.shown else row)
    if dx is not None:
        dx.close()
    return {
        **asdict(setup),
        "name": setup.name,
        "shown": task.shown,
        "names": task.names,
        "steps": steps,
        "epochs": epochs,
        "truth": task.truth(out, task.yv),
    }


def train_all(fresh: bool, bare: bool, final: bool, data: tuple[str, ...], minutes: float) -> None:
    """Train what is missing of one half, each in a fork of its own, so that one run's observer cannot touch the next."""
    importlib.import_module("sklearn.datasets")  # once, and not in every fork
    importlib.import_module("traindx")
    WORK.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    mixed = sorted(setups(), key=lambda s: (s != reference(s.data), hashlib.sha256(s.name.encode()).digest()))
    for setup in (s for s in mixed if s.sealed is final and s.data.startswith(data or "")):
        if time.monotonic() - began > 60 * minutes:
            break
        target, record = WORK / f"{setup.name}.json", WORK / "records" / setup.name
        if target.exists() and (bare or record.exists()) and not fresh:
            continue
        child = os.fork()
        if child == 0:
            done = train(setup, None if bare else record)
            target.write_text(json.dumps(done))
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            raise SystemExit(f"{setup.name} failed")
    print(f"trained for {time.monotonic() - began:.0f} s")


def _number(value: float) -> str:
    return f"{value:.6g}"


def as_csv(run: dict[str, Any], folder: Path) -> Path:
    target = folder / "log.csv"
    shown = [run["shown"]] if run["shown"] else []
    with target.open("w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["epoch", *run["names"], *shown])
        writer.writerows([[_number(row[n]) for n in ("epoch", "train_loss", "val_loss", *shown)] for row in run["epochs"]])
    return target


def _bare_name(run: dict[str, Any]) -> str:
    """The metric without the word for validation before it."""
    return run["shown"].removeprefix(run["names"][1].removesuffix("loss"))


def as_console(run: dict[str, Any], folder: Path) -> Path:
    target = folder / "train.log"
    total = len(run["epochs"])
    lines = []
    for i, row in enumerate(run["epochs"]):
        line = f"Epoch {i + 1}/{total}: train loss {row['train_loss']:.4f} | val loss {row['val_loss']:.4f}"
        lines.append(line + (f" | val {_bare_name(run)} {row[run['shown']]:.4f}" if run["shown"] else ""))
    target.write_text("\n".join(lines) + "\n")
    return target


def as_events(run: dict[str, Any], folder: Path) -> Path:
    from torch.utils.tensorboard import SummaryWriter

    target = folder / "events"
    with SummaryWriter(str(target)) as writer:
        for i in range(0, len(run["steps"]), 5):
            writer.add_scalar("train/loss", run["steps"][i], i)
        for row in run["epochs"]:
            writer.add_scalar("val/loss", row["val_loss"], row["step"])
            if run["shown"]:
                writer.add_scalar(f"val/{_bare_name(run)}", row[run["shown"]], row["step"])
    return target


def source_of(run: dict[str, Any], form: str) -> Path:
    """The run in one of the four forms, written where it is not there yet."""
    if form == "live":
        return WORK / "records" / run["name"]
    folder = WORK / "logs" / form / run["name"]
    if folder.exists():
        return next(folder.iterdir())
    folder.mkdir(parents=True)
    return {"csv": as_csv, "console": as_console, "events": as_events}[form](run, folder)


def trained() -> list[dict[str, Any]]:
    """Every run that was trained, with its truth on the scale of the sweep."""
    there = [s for s in setups() if (WORK / f"{reference(s.data).name}.json").exists() and (WORK / f"{s.name}.json").exists()]
    print(f"{len(there)} of {len(setups())} configurations are trained", file=sys.stderr)
    runs = [{"names": Task.names} | json.loads((WORK / f"{s.name}.json").read_text()) | {"sealed": s.sealed} for s in there]
    for data in TASKS:
        mine = [r for r in runs if r["data"] == data]
        best = max((r["truth"] for r in mine if math.isfinite(r["truth"])), default=1.0)
        for r in mine:
            r["truth"] = r["truth"] / best if math.isfinite(r["truth"]) else 0.0
    return runs


@dataclass(frozen=True)
class Judged:
    """What was said of one run in one form."""

    name: str
    form: str
    truth: float
    verdict: str
    alarmed: bool
    codes: tuple[str, ...]
    state: str
    low: float
    high: float

    @property
    def kind(self) -> str:
        return "at chance" if self.truth <= AT_CHANCE else "learned well" if self.truth >= LEARNED_WELL else "between"


def judge(run: dict[str, Any], form: str) -> Judged:
    import traindx

    d = traindx.diagnose(source_of(run, form))
    learned = getattr(d, "learned", None)
    codes = tuple(f"{f.code}/{f.severity.value[0]}" for f in d.findings if f.severity.value != "info")
    return Judged(
        run["name"], form, run["truth"], d.verdict, d.alarmed, codes, getattr(learned, "state", ""), getattr(learned, "low", 0.0),
        getattr(learned, "high", 1.0),
    )  # fmt: skip


def figures(judged: list[Judged]) -> Iterator[dict[str, Any]]:
    """One row per form and one for all."""
    for form in (*FORMATS, "all"):
        rows = [j for j in judged if form in (j.form, "all")]
        chance, well = ([j for j in rows if j.kind == kind] for kind in ("at chance", "learned well"))
        spans = [(j.low, j.high, min(max(j.truth, 0.0), 1.0)) for j in rows if j.state not in ("", "cannot-know", "too-early")]
        yield {
            "form": form,
            "runs": len(rows),
            "at chance": len(chance),
            "called healthy or wait": sum(j.verdict in ("healthy", "wait") for j in chance),
            "alarmed": sum(j.alarmed for j in chance),
            "learned well": len(well),
            "alarmed though learned": sum(j.alarmed for j in well),
            "cannot tell though learned": sum(j.verdict == "cannot-tell" for j in well),
            "with an interval": len(spans),
            "interval holds": sum(low - 1e-9 <= truth <= high + 1e-9 for low, high, truth in spans),
            "median width": statistics.median([high - low for low, high, _ in spans]) if spans else math.nan,
        }


def page(rows: list[dict[str, Any]]) -> str:
    head = "| form | at chance → healthy or wait | at chance → alarmed | learned well → alarmed | … → cannot tell | interval holds | median width |"
    lines = [head, "|---" * 7 + "|"]
    for r in rows:
        lines.append(
            f"| {r['form']} | {r['called healthy or wait']} of {r['at chance']} | {r['alarmed']} of {r['at chance']} "
            f"| {r['alarmed though learned']} of {r['learned well']} | {r['cannot tell though learned']} of {r['learned well']} "
            f"| {r['interval holds']} of {r['with an interval']} | {r['median width']:.2f} |"
        )
    return "\n".join(lines)


def picture(judged: list[Judged], target: Path) -> None:
    """Every interval against the truth of its run, sorted by the truth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, len(FORMATS), figsize=(12, 3.4), sharey=True)
    for form, ax in zip(FORMATS, axes, strict=True):
        rows = sorted((j for j in judged if j.form == form and j.state), key=lambda j: j.truth)
        for i, j in enumerate(rows):
            truth = min(max(j.truth, 0.0), 1.0)
            ax.plot([i, i], [j.low, j.high], color="#7aa6c2" if j.low <= truth <= j.high else "#d0563f", lw=1.2)
            ax.plot(i, truth, ".", color="black", ms=2)
        ax.set_title(f"{form} ({len(rows)} runs)", fontsize=9)
        ax.set_xticks([])
    axes[0].set_ylabel("share of what can be had")
    fig.tight_layout()
    fig.savefig(target, format="svg", metadata={"Date": None})


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("what", choices=("train", "judge"))
    ask.add_argument("--fresh", action="store_true", help="train everything anew")
    ask.add_argument("--bare", action="store_true", help="train unwatched: four times as fast, and nothing to judge live")
    ask.add_argument("--data", nargs="+", default=[], help="only data sets whose names begin so")
    ask.add_argument("--minutes", type=float, default=math.inf, help="train no longer than this")
    ask.add_argument("--final", action="store_true", help="judge the sealed half instead of the open one; every use is logged")
    ask.add_argument("--show", action="store_true", help="list the runs that were judged wrongly")
    ask.add_argument("--form", choices=FORMATS, action="append")
    ask.add_argument("--picture", type=Path, help="draw the intervals against the truth")
    ask.add_argument("--save", action="store_true", help="keep the figures under bench/results/")
    a = ask.parse_args()
    if a.what == "train":
        train_all(a.fresh, a.bare, a.final, tuple(a.data), a.minutes)
        return
    runs = [r for r in trained() if r["sealed"] is a.final]
    judged = [judge(r, form) for r in runs for form in (a.form or FORMATS) if form != "live" or source_of(r, form).exists()]
    rows = list(figures(judged))
    text = page(rows)
    print(text)
    if a.show:
        for j in judged:
            quiet = j.kind == "at chance" and not j.alarmed
            if quiet or (j.kind == "learned well" and j.alarmed):
                print(
                    f"{j.kind:13} {j.form:8} {j.name:46} truth {j.truth:6.2f} {j.verdict:14} {j.state} {j.low:.2f}–{j.high:.2f} {' '.join(j.codes)}"
                )
        for j in judged:
            if j.state not in ("", "cannot-know", "too-early") and not j.low - 1e-9 <= min(max(j.truth, 0), 1) <= j.high + 1e-9:
                print(f"interval      {j.form:8} {j.name:46} truth {j.truth:6.2f} {j.state} {j.low:.2f}–{j.high:.2f}")
    if a.picture:
        picture(judged, a.picture)
    half = "sealed" if a.final else "open"
    if a.final:
        with (RESULTS / "sweeps_final.log").open("a") as f:
            f.write(f"{time.strftime('%Y-%m-%d %H:%M')}\n{text}\n\n")
    if a.save or a.final:
        (RESULTS / f"sweeps_{half}.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
