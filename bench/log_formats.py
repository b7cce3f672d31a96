"""Does traindx read logs it has never seen? A generator of printed log formats with known truth.

    python bench/log_formats.py [--files 2000] [--seed 0] [--show 5] [--json FILE]
    python bench/log_formats.py --final            # the sealed seeds; each use is noted in bench/results/log_formats_final.txt

Each file is made of random parts: how a line tells its place, what the losses and metrics are called and in which language,
separators, time stamps, colours, progress bars, running means, where the evaluation is printed, what stands around it
(settings, source code, prose), one run or several. Right means: the number of runs, the axis, every training loss and every
validation loss. Swapped means: validation was read as training or the reverse, the worst that can happen.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from traindx import importers
from traindx.errors import TraindxError
from traindx.run import Series

SEALED = 1_000_000
USES = Path(__file__).parent / "results" / "log_formats_final.txt"

# what people call a training loss, a validation loss and the accuracy beside them, by language
NAMES = {
    "en": (["loss", "Loss", "train_loss", "Train Loss", "training loss", "train/loss", "tr_loss", "trn_loss", "avg_loss", "total_loss"],
           ["val_loss", "Val Loss", "valid_loss", "validation loss", "eval_loss", "val/loss", "dev loss", "vl_loss"], "acc", "epoch", "step"),
    "de": (["Verlust", "Trainingsverlust"], ["Validierungsverlust"], "Genauigkeit", "Epoche", "Schritt"),
    "fr": (["perte", "perte entraînement"], ["perte validation"], "exactitude", "époque", "étape"),
    "es": (["pérdida", "pérdida de entrenamiento"], ["pérdida de validación"], "exactitud", "época", "paso"),
    "ru": (["потери", "ошибка обучения"], ["потери валидации", "ошибка валидации"], "точность", "эпоха", "шаг"),
    "zh": (["损失", "训练损失"], ["验证损失"], "准确率", "轮次", "步数"),
    "ja": (["損失", "訓練損失"], ["検証損失"], "精度", "エポック", "ステップ"),
    "ko": (["손실", "훈련 손실"], ["검증 손실"], "정확도", "에폭", "스텝"),
}  # fmt: skip
LANGUAGES = ["en"] * 14 + ["de", "fr", "es", "ru", "zh", "ja", "ko"]


@dataclass
class Truth:
    """What a reader must get out of a file: one entry a run."""

    unit: str = "step"
    train: list[list[float]] = field(default_factory=list)
    train_x: list[list[float]] = field(default_factory=list)
    val: list[list[float]] = field(default_factory=list)


@dataclass
class Curve:
    epochs: int
    per: int  # records an epoch
    batches: int  # batches an epoch
    train: np.ndarray  # epochs × per
    val: np.ndarray
    acc: np.ndarray
    lr: np.ndarray


def curve(rng: random.Random) -> Curve:
    """A run that falls, with noise; validation above training, never equal to it."""
    gen = np.random.default_rng(rng.getrandbits(32))
    epochs, per = rng.randint(6, 30), rng.choice([1, 2, 3, 5, 10])
    batches = per * rng.choice([10, 20, 50, 100])
    start = float(np.exp(gen.uniform(-1.5, 2.5)))
    t = np.arange(epochs * per) / (epochs * per)
    train = start * (0.15 + 0.85 * np.exp(-4 * t)) * np.exp(gen.normal(0, 0.03, len(t)))
    val = start * (0.3 + 0.8 * np.exp(-3.5 * (np.arange(epochs) + 1) / epochs)) * np.exp(gen.normal(0, 0.02, epochs))
    acc = np.clip(0.95 - 0.7 * np.exp(-3 * (np.arange(epochs) + 1) / epochs) + gen.normal(0, 0.01, epochs), 0, 1)
    return Curve(
        epochs,
        per,
        batches,
        train.reshape(epochs, per),
        val,
        acc,
        10.0 ** gen.uniform(-5, -1) * (1 - 0.9 * t).reshape(epochs, per),
    )


def stamp(rng: random.Random) -> Callable[[int], str]:
    """What stands before each line: nothing, a time in one of many forms, a logger's name, a rank."""
    begin = datetime.datetime(2025, rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), 5, tzinfo=datetime.UTC)
    forms = ["%Y-%m-%d %H:%M:%S,{ms:03d} - mmdet - INFO - ", "%Y/%m/%d %H:%M:%S - mmengine - INFO - ", "[%Y-%m-%d %H:%M:%S,{ms:03d}][root][INFO] - ",
             "%m/%d %H:%M:%S INFO train.py:118: ", "[%H:%M:%S] ", "%Y-%m-%dT%H:%M:%S.{ms:03d}Z | ", "%b %d %H:%M:%S host7 python[2231]: ",
             "%Y-%m-%d %H:%M:%S | INFO     | __main__:train:88 - ", "INFO:root:", "[rank0]: ", "0: ", "[%d/%m/%y %H:%M:%S] ", "%H:%M:%S.{ms:03d} ",
             "I%m%d %H:%M:%S.{ms:03d}000 140 train.py:41] "]  # fmt: skip
    form = rng.choice(["", "", "", *forms])
    gap = rng.randint(2, 600)

    def at(i: int) -> str:
        return (begin + datetime.timedelta(seconds=gap * i)).strftime(form).replace("{ms:03d}", f"{(i * 37) % 1000:03d}")

    return at


def number(rng: random.Random) -> Callable[[float], str]:
    form = rng.choice(["{:.4f}", "{:.3f}", "{:.6f}", "{:.2e}", "{:.5g}", "{:8.4f}", "{:.4e}"])
    return form.format


def spelled(name: str, value: str, rng_sep: str) -> str:
    return f"{name}{rng_sep}{value}"


class Writer:
    """One way to print a run; what it prints is the same for every run in the file."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lang = rng.choice(LANGUAGES)
        trains, vals, self.acc, self.epoch, self.step = NAMES[self.lang]
        self.loss, self.val = rng.choice(trains), rng.choice(vals)
        self.num, self.before = number(rng), stamp(rng)
        self.tie = rng.choice([": ", "=", " = ", ":", " "] if self.lang == "en" else [": ", "=", ":"])
        self.sep = rng.choice([" ", ", ", " | ", "  ", "\t", "; ", " - "] if self.tie != " " else [", ", " | ", "  ", "\t"])
        self.extras = rng.sample(["lr", "time", "grad_norm", "eta", "mem", "acc", "tok/s"], rng.choice([0, 0, 1, 2, 3]))
        self.colour = rng.random() < 0.1
        self.mean = rng.random() < 0.15  # AverageMeter: value (mean)
        self.zero = rng.choice([0, 1])
        self.lines_out = 0
        self.shape = rng.choice(
            [
                self.steps,
                self.steps,
                self.epochs,
                self.epochs,
                self.both,
                self.both,
                self.brackets,
                self.pairs,
                self.table,
                self.estimate,
                self.bar,
            ]
        )

    # -- pieces

    def extra(self, c: Curve, e: int, i: int) -> list[str]:
        r, out = self.rng, []
        for what in self.extras:
            if what == "lr":
                out.append(spelled("lr", f"{c.lr[e, i]:.3e}", self.tie))
            elif what == "time":
                out.append(spelled("time", f"{r.uniform(0.1, 0.2):.3f}s", self.tie))
            elif what == "grad_norm":
                out.append(spelled("grad_norm", f"{r.uniform(0.5, 2):.3f}", self.tie))
            elif what == "eta":
                out.append(spelled("eta", f"{r.randint(0, 9)}:{r.randint(10, 59)}:{r.randint(10, 59)}", self.tie))
            elif what == "mem":
                out.append(spelled("mem", f"{r.randint(3000, 3100)}MB", self.tie))
            elif what == "acc":
                out.append(spelled("train_acc" if self.lang == "en" else self.acc, f"{c.acc[e] - 0.01:.4f}", self.tie))
            else:
                out.append(spelled("tok/s", f"{r.randint(20000, 21000)}", self.tie))
        return out

    def line(self, text: str) -> str:
        out = self.before(self.lines_out) + (f"\x1b[32m{text}\x1b[0m" if self.colour else text)
        self.lines_out += 1
        return out

    def value(self, name: str, v: float, running: float | None = None) -> tuple[str, float]:
        """A printed loss, and what a reader must take from it: of `value (mean)` the mean."""
        text = self.num(v)
        if self.mean and running is not None:
            told = self.num(running)
            return f"{name}{self.tie}{text.strip()} ({told.strip()})", float(told)
        return spelled(name, text, self.tie), float(text)

    # -- shapes; each yields lines and fills train, x, val

    def steps(self, c: Curve, t: Truth) -> list[str]:
        """step N … loss; evaluations on lines of their own with their step."""
        gap, out, train, x, val = c.batches // c.per, [], [], [], []
        name = self.rng.choice(["step", "Step", "iter", "iteration", "global_step"]) if self.lang == "en" else self.step
        total = self.rng.choice(["", f"/{c.epochs * c.batches}"])
        tie = self.rng.choice([" ", ": ", "="]) if self.lang == "en" else self.tie
        for e in range(c.epochs):
            for i in range(c.per):
                at = (e * c.per + i + self.zero) * gap
                text, v = self.value(self.loss, c.train[e, i], float(np.mean(c.train[e, : i + 1])))
                out.append(self.line(self.sep.join([f"{name}{tie}{at}{total}", text, *self.extra(c, e, i)])))
                train.append(v)
                x.append(at)
            text, v = self.value(self.val, c.val[e])
            out.append(self.line(self.sep.join([f"{name}{tie}{x[-1]}{total}", text, *self.score(c, e)])))
            val.append(v)
        self.fill(t, "step", train, x, val)
        return out

    def score(self, c: Curve, e: int) -> list[str]:
        name = f"val_{self.acc}" if self.lang == "en" else self.acc
        return [spelled(name, f"{c.acc[e]:.4f}", self.tie)] if self.rng.random() < 0.99 and "acc" in self.extras else []

    def epochs(self, c: Curve, t: Truth) -> list[str]:
        """One line an epoch with both losses, in either order."""
        out, train, val = [], [], []
        of = self.rng.choice(["", f"/{c.epochs}"])
        head = self.rng.choice(["Epoch {e}{of}", "epoch: {e}{of}", "[Epoch {e}{of}]", "Epoch [{e}{of}]", "ep{e:02d}{of}", "epoch={e}{of}", "E{e:03d}{of}"]
                               if self.lang == "en" else [self.epoch + " {e}{of}", self.epoch + ": {e}{of}"])  # fmt: skip
        if head.startswith("E{"):
            of = f"/{c.epochs}"
        swapped, plain = self.rng.random() < 0.2, self.lang == "en" and self.rng.random() < 0.15
        for e in range(c.epochs):
            a, va = self.value("train" if plain else self.loss, float(np.mean(c.train[e])))
            b, vb = self.value("val" if plain else self.val, c.val[e])
            both = [b, a] if swapped else [a, b]
            out.append(
                self.line(self.sep.join([head.format(e=e + self.zero, of=of), *both, *self.extra(c, e, 0), *self.score(c, e)]))
            )
            train.append(va)
            val.append(vb)
        self.fill(t, "epoch", train, [float(e + self.zero) for e in range(c.epochs)], val)
        return out

    def both(self, c: Curve, t: Truth) -> list[str]:
        """Epoch and batch within it on each line; the evaluation after each epoch."""
        out, train, x, val = [], [], [], []
        gap = c.batches // c.per
        head = self.rng.choice(["Epoch [{e}/{es}], Step [{i}/{n}]", "Epoch: [{e}][{i}/{n}]", "| epoch {e} | {i}/{n} batches |", "[{e}/{es}][{i}/{n}]",
                                "(epoch: {e}, iters: {i})", "Epoch {e} [{i}/{n}]", "epoch {e}/{es} batch {i}/{n}", "Train Epoch: {e} [{i}/{n} ({p}%)]"])  # fmt: skip
        told = self.rng.choice(["Epoch {e}/{es}", "epoch {e}", "* epoch {e}:", "Epoch {e} done.", ""])
        place = self.zero
        for e in range(c.epochs):
            for i in range(c.per):
                at = (i + 1) * gap
                text, v = self.value(self.loss, c.train[e, i], float(np.mean(c.train[e, : i + 1])))
                where = head.format(e=e + place, es=c.epochs, i=at, n=c.batches, p=100 * at // c.batches)
                out.append(self.line(self.sep.join([where, text, *self.extra(c, e, i)])))
                train.append(v)
                x.append(e * c.batches + at)
            text, v = self.value(self.val, c.val[e])
            out.append(
                self.line(self.sep.join([p for p in (told.format(e=e + place, es=c.epochs), text, *self.score(c, e)) if p]))
            )
            val.append(v)
        self.fill(t, "step" if c.per > 1 else "", train, x, val)  # one record an epoch: counting epochs is as right
        return out

    def brackets(self, c: Curve, t: Truth) -> list[str]:
        """[train] and [eval] in front of lines whose loss is only called loss."""
        out, train, x, val = [], [], [], []
        gap = c.batches // c.per
        a, b = self.rng.choice(
            [
                ("[train] ", "[eval] "),
                ("[TRAIN] ", "[VALID] "),
                ("train | ", "valid | "),
                ("Train: ", "Val: "),
                ("[Train]", "[Test]"),
                ("TRAIN - ", "DEV - "),
            ]
        )
        for e in range(c.epochs):
            for i in range(c.per):
                at = (e * c.per + i + 1) * gap
                text, v = self.value("loss", c.train[e, i], float(np.mean(c.train[e, : i + 1])))
                out.append(self.line(f"{a}{self.sep.join([f'iter {at}', text, *self.extra(c, e, i)])}"))
                train.append(v)
                x.append(at)
            text, v = self.value("loss", c.val[e])
            out.append(self.line(f"{b}{self.sep.join([f'iter {x[-1]}', text])}"))
            val.append(v)
        self.fill(t, "step", train, x, val)
        return out

    def pairs(self, c: Curve, t: Truth) -> list[str]:
        """loss=a/b val=c/d: loss and accuracy of one split behind one name."""
        out, train, val = [], [], []
        form = self.rng.choice(["ep{e:02d}/{es} loss={a}/{b} val={c}/{d}", "epoch {e}: train {a} ({b}) val {c} ({d})", "Epoch {e}/{es} train loss/acc {a}/{b} val loss/acc {c}/{d}",
                                "{e:3d}: train={a} val={c}", "epoch {e} train: {a} | val: {c}", "Epoch {e} - train_loss {a} - val_loss {c}"])  # fmt: skip
        for e in range(c.epochs):
            a, v = f"{np.mean(c.train[e]):.4f}", f"{c.val[e]:.4f}"
            line = form.format(e=e + self.zero, es=c.epochs, a=a, b=f"{c.acc[e] - 0.005:.3f}", c=v, d=f"{c.acc[e]:.3f}")
            out.append(self.line(line))
            train.append(float(a))
            val.append(float(v))
        self.fill(t, "epoch", train, [float(e + self.zero) for e in range(c.epochs)], val)
        return out

    def table(self, c: Curve, t: Truth) -> list[str]:
        """A heading and rows of numbers under it."""
        out, train, val = [], [], []
        wide = self.rng.random() < 0.5
        parter = self.rng.choice(["  ", " | ", "\t"])
        names = [
            "epoch",
            self.rng.choice(["train_loss", "train loss", "Train", "tr_loss"]),
            self.rng.choice(["valid_loss", "val loss", "Valid", "vl_loss"]),
            "accuracy",
            "time",
        ]
        if parter == "  ":
            names = [n.replace(" ", "_") for n in names]
        width = 12 if wide else 0
        out.append(parter.join(f"{n:<{width}}" for n in names))
        if self.rng.random() < 0.4:
            out.append(parter.join("-" * max(width, len(n)) for n in names))
        for e in range(c.epochs):
            a, v = f"{np.mean(c.train[e]):.6f}", f"{c.val[e]:.6f}"
            cells = [str(e + self.zero), a, v, f"{c.acc[e]:.4f}", f"00:{self.rng.randint(10, 59)}"]
            out.append(parter.join(f"{s:<{width}}" for s in cells))
            train.append(float(a))
            val.append(float(v))
        self.fill(t, "epoch", train, [float(e + self.zero) for e in range(c.epochs)], val)
        return out

    def estimate(self, c: Curve, t: Truth) -> list[str]:
        """step N: train loss a, val loss b every so often, and the loss of each batch in between."""
        out, train, x, val = [], [], [], []
        gap = c.batches // c.per
        form = self.rng.choice(
            [
                "step {at}: train loss {a}, val loss {b}",
                "[eval] iter {at}: train {a} val {b}",
                "{at} | train {a} | val {b}",
                "eval @ {at} train_loss={a} val_loss={b}",
            ]
        )
        for e in range(c.epochs):
            for i in range(c.per):
                at = (e * c.per + i) * gap
                out.append(
                    self.line(f"iter {at}: loss {c.train[e, i]:.4f}, time {self.rng.uniform(100, 120):.2f}ms, mfu 12.10%")
                )
                train.append(float(f"{c.train[e, i]:.4f}"))
                x.append(at)
            out.append(self.line(form.format(at=x[-1], a=f"{np.mean(c.train[e]):.4f}", b=f"{c.val[e]:.4f}")))
            val.append(float(f"{c.val[e]:.4f}"))
        self.fill(t, "step", train, x, val)
        return out

    def bar(self, c: Curve, t: Truth) -> list[str]:
        """A tqdm bar drawn over itself, then a line an epoch."""
        out, train, val = [], [], []
        for e in range(c.epochs):
            draws = []
            for k in range(5):
                n, of = k * c.batches // 4, c.batches
                draws.append(
                    f"Epoch {e + self.zero}: {25 * k:3d}%|{'█' * k}{' ' * (4 - k)}| {n}/{of} [00:{k:02d}<00:{4 - k:02d}, 31.2it/s, loss={c.train[e, 0] * (1 - 0.01 * k):.4f}]"
                )
            a, v = f"{np.mean(c.train[e]):.4f}", f"{c.val[e]:.4f}"
            out.append("\r".join(draws))
            out.append(self.line(f"Epoch {e + self.zero}: train_loss {a}, val_loss {v}"))
            train.append(float(a))
            val.append(float(v))
        self.fill(t, "", train, [float(e + self.zero) for e in range(c.epochs)], val)
        return out

    def fill(self, t: Truth, unit: str, train: list[float], x: list[float], val: list[float]) -> None:
        t.unit = unit
        t.train.append(train)
        t.train_x.append(x)
        t.val.append(val)


def around(rng: random.Random, lines: list[str], c: Curve) -> list[str]:
    """What else stands in such a file: settings, source code, prose, messages about the best so far."""
    front: list[str] = []
    if rng.random() < 0.25:
        front += ["Namespace(batch_size=64, epochs=30, loss='ce', lr=0.001, val_every=1, weight_decay=0.0)"]
    if rng.random() < 0.2:
        front += ["{'model': 'resnet18', 'loss_weight': 1.0, 'train_steps': 5000, 'val_loss_patience': 10}"]
    if rng.random() < 0.15:
        front += ["import torch", "for step in range(args.num_steps + 1):", "    loss = model(x, y)  # step 1: loss 0.5",
                  "    train_loss += loss.item() / 4", '    print(f"step:{step}/{args.num_steps} val_loss:{val_loss:.4f}")', "val_loss = 0.0", "=" * 60]  # fmt: skip
    if rng.random() < 0.3:
        front += [
            "Loading data ... 50000 training and 10000 validation samples",
            f"Number of parameters: {rng.randint(10**5, 10**8)}",
            "Start training",
        ]
    body, best = [], float("inf")
    notice = rng.choice(
        [
            "",
            "",
            "",
            "Validation loss decreased ({a} --> {b}).  Saving model ...",
            "val_loss improved from {a} to {b}, saving model to best.pt",
            "New best loss: {b}",
        ]
    )
    every = max(1, len(lines) // c.epochs)
    for k, line in enumerate(lines):
        body.append(line)
        e = k // every
        if notice and k % every == every - 1 and e < c.epochs and c.val[e] < best:
            body.append(notice.format(a=f"{best:.6f}", b=f"{c.val[e]:.6f}"))
            best = float(c.val[e])
    end = rng.choice([[], ["Training complete."], ["Finished in 512.3 s", "Done!"], ["saved checkpoint to out/last.pt"]])
    return front + body + end


def make(seed: int) -> tuple[str, Truth, str]:
    """A file, its truth and what kind of file it is."""
    rng = random.Random(seed)
    writer, truth = Writer(rng), Truth()
    runs = rng.choice([1] * 9 + [2, 3])
    lines: list[str] = []
    for k in range(runs):
        c = curve(rng)
        if runs > 1:
            lines.append(rng.choice([f"Fold {k + 1}/{runs}", f"===== run {k + 1} =====", "Start training"]))
        lines += around(rng, writer.shape(c, truth), c)
    kind = f"{writer.shape.__name__}/{writer.lang}" + ("/runs" if runs > 1 else "") + ("/mean" if writer.mean else "")
    return "\n".join(lines) + "\n", truth, kind


def alike(got: Series | None, want: list[float]) -> bool:
    return got is not None and len(got) == len(want) and bool(np.allclose(got.values, want, rtol=1e-6))


def verdict(text: str, truth: Truth, folder: Path) -> str:
    """'right', or the first thing that is wrong."""
    path = folder / "train.log"
    path.write_text(text, encoding="utf-8")
    try:
        runs = importers.read(path)
    except TraindxError as why:
        return f"unreadable: {str(why)[-60:]}"
    if len(runs) != len(truth.train):
        return f"{len(runs)} runs instead of {len(truth.train)}"
    for run, train, x, val in zip(runs, truth.train, truth.train_x, truth.val, strict=True):
        got, seen = run.signals.get("loss/train"), run.signals.get("loss/val")
        if (alike(got, val) and not alike(got, train)) or (alike(seen, train) and not alike(seen, val)):
            return "SWAPPED"
        if not alike(got, train) and (truth.unit or "█" not in text):
            return "training loss"
        if not alike(seen, val):
            return "validation loss"
        if truth.unit == "epoch" and not str(run.fact("step_unit", "")).startswith("epoch"):
            return "axis: not epochs"
        if (
            truth.unit
            and len(x) > 2
            and not np.allclose(np.diff(got.steps) * (x[1] - x[0]), np.diff(x) * (got.steps[1] - got.steps[0]))
        ):
            return "axis: other distances"
        if truth.unit == "step" and got.steps[-1] - got.steps[0] != x[-1] - x[0]:
            return "axis: other length"
    return "right"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="print this many files that were read wrongly")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--final", action="store_true", help="the sealed seeds; noted")
    args = parser.parse_args()
    first = SEALED if args.final else args.seed
    outcomes: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    shown = 0
    with tempfile.TemporaryDirectory() as tmp:
        for seed in range(first, first + args.files):
            text, truth, kind = make(seed)
            said = verdict(text, truth, Path(tmp))
            outcomes[said if said in ("right", "SWAPPED") else said.split(":")[0]] += 1
            kinds.setdefault(kind.split("/")[0], Counter())[said] += 1
            kinds.setdefault(kind.split("/")[1], Counter())[said] += 1
            if said != "right" and shown < args.show and not args.final:
                shown += 1
                print(f"--- seed {seed} {kind}: {said}")
                print("\n".join(text.split("\n")[:14]))
    right = outcomes["right"]
    print(
        f"{right} of {args.files} files read right ({100 * right / args.files:.1f} %), {outcomes['SWAPPED']} swapped; {dict(outcomes.most_common())}"
    )
    for kind, counts in sorted(kinds.items()):
        print(
            f"  {kind:9s} {counts['right']:4d} of {sum(counts.values()):4d}",
            {k: v for k, v in counts.most_common(4) if k != "right"},
        )
    if args.json:
        args.json.write_text(
            json.dumps({"files": args.files, "right": right, "swapped": outcomes["SWAPPED"], "seed": first}, indent=1)
        )
    if args.final:
        with USES.open("a") as log:
            log.write(
                f"{datetime.datetime.now(datetime.UTC).date()} files {args.files} right {right} swapped {outcomes['SWAPPED']}\n"
            )


if __name__ == "__main__":
    main()
