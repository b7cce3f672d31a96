"""Data sets that a coin draws: kind, size, noise, unit of the target, loss, metric and the names in the log.

`drawn(coin)` gives one data set of every kind. A coin that nobody has trained on yet is a sealed half (bench/sweeps.py): who
changes the judgement looks at it once, at the end, and takes a new coin then.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Metric = Callable[[Tensor, Tensor], float]
NAMES = (("train_loss", "val_loss"), ("loss", "val_loss"), ("train/loss", "val/loss"), ("training_loss", "valid_loss"))


@dataclass(frozen=True)
class Task:
    """A data set, how its loss and metric are computed, and what its log shows."""

    x: Tensor
    y: Tensor
    xv: Tensor
    yv: Tensor
    outputs: int
    loss: Callable[[Tensor, Tensor], Tensor]
    truth: Metric  # the metric behind the truth: 0 is chance (a constant answer), higher is better
    shown: str  # the metric in the log; empty: none
    show: Metric
    epochs: int
    tokens: int = 0  # a vocabulary: the net begins with an embedding
    names: tuple[str, str] = NAMES[0]  # of the two losses in the log


def _shuffled(t: Tensor) -> Tensor:
    return t[torch.randperm(len(t), generator=torch.Generator().manual_seed(0))]


def split(x: Tensor, y: Tensor, val: int, **rest: Any) -> Task:
    x, y = _shuffled(x), _shuffled(y)
    return Task(x[:-val], y[:-val], x[-val:], y[-val:], **rest)


def held_out(y: Tensor, val: int) -> Tensor:
    """The targets of validation: what a constant answer scores there is chance."""
    return _shuffled(y)[-val:]


def accuracy(out: Tensor, y: Tensor) -> float:
    return float((out.flatten(0, -2).argmax(-1) == y.flatten()).float().mean())


def cross_entropy(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out.flatten(0, -2), y.flatten())


def r2(out: Tensor, y: Tensor) -> float:
    return float(1 - F.mse_loss(out, y) / (y - y.mean(0)).square().mean())


def auc(out: Tensor, y: Tensor) -> float:
    score = out.flatten().double()
    if not torch.isfinite(score).all():
        return math.nan
    one, zero = score[y.flatten() > 0.5], score[y.flatten() <= 0.5]
    gap = one[:, None] - zero[None, :]
    return float((gap > 0).double().mean() + 0.5 * (gap == 0).double().mean())


def _each_auc(out: Tensor, y: Tensor) -> float:
    return sum(auc(out[:, k], y[:, k]) for k in range(y.shape[1])) / y.shape[1]


def _mae(out: Tensor, y: Tensor) -> float:
    return float((out - y).abs().mean())


def _rmse(out: Tensor, y: Tensor) -> float:
    return float(F.mse_loss(out, y).sqrt())


def _hits(out: Tensor, y: Tensor) -> tuple[float, float, float]:
    """How many ones were told rightly, were told, and were there."""
    said = out > 0
    return float((said & (y > 0.5)).sum()), float(said.sum()), float((y > 0.5).sum())


def _f1(out: Tensor, y: Tensor) -> float:
    hit, told, there = _hits(out, y)
    return 2 * hit / max(1.0, told + there)


def _iou(out: Tensor, y: Tensor) -> float:
    hit, told, there = _hits(out, y)
    return hit / max(1.0, told + there - hit)


def _balanced(out: Tensor, y: Tensor) -> float:
    said, ones = out > 0, y > 0.5
    return (float(said[ones].float().mean()) + float((~said[~ones]).float().mean())) / 2


def _recall(out: Tensor, y: Tensor) -> float:
    """The mean recall of the classes."""
    said, there = out.argmax(-1), y.unique()
    return sum(float((said[y == k] == k).float().mean()) for k in there) / len(there)


def _top5(out: Tensor, y: Tensor) -> float:
    return float((out.topk(5, -1).indices == y[:, None]).any(-1).float().mean())


def _place(out: Tensor, y: Tensor) -> Tensor:
    """At which place, from 1, the right item of each list stands; a tie is half lost. Without a score the list is one tie."""
    score = out.squeeze(-1).nan_to_num()
    right = score.gather(1, y[:, None])
    return 1 + (score > right).sum(1) + ((score == right).sum(1) - 1) / 2


def _mrr(out: Tensor, y: Tensor) -> float:
    return float((1 / _place(out, y)).mean())


def _ndcg(out: Tensor, y: Tensor) -> float:
    return float((1 / torch.log2(1 + _place(out, y))).mean())


def _gained(metric: Metric, chance: float, perfect: float = 1.0) -> Metric:
    return lambda out, y: (metric(out, y) - chance) / (perfect - chance)


def _spared(loss: Callable[[Tensor, Tensor], Tensor], chance: float) -> Metric:
    """Which part of the loss of a constant answer is spared."""
    return lambda out, y: 1 - float(loss(out, y)) / chance


def _entropy(y: Tensor) -> float:
    share = y.flatten().bincount().float() / y.numel()
    return float(-(share[share > 0] * share[share > 0].log()).sum())


class Coin:
    """What a coin decides: every draw of one data set comes from here."""

    def __init__(self, seed: str) -> None:
        self.of = random.Random(seed)
        self.g = torch.Generator().manual_seed(self.of.randrange(2**31))

    def normal(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self.g)

    def hidden(self, x: Tensor, width: int = 12) -> Tensor:
        """A smooth function of the features that no linear one explains: what there is to be learned, of unit variance."""
        a, b = self.normal(x.shape[-1], width), self.normal(width, 1)
        out = ((x @ a) / math.sqrt(x.shape[-1]) * 1.5).tanh() @ b + 0.7 * x[..., :1] * x[..., 1:2]
        return (out - out.mean()) / out.std()

    def features(self, n: int) -> Tensor:
        return self.normal(n, self.of.choice((5, 8, 14)))

    def metric(self, offers: dict[str, tuple[Metric, Metric]], none: Metric) -> dict[str, Any]:
        """One of the metrics under one of its names (separated by spaces), with the truth that belongs to it; or none."""
        pick = self.of.choice([*offers, ""])
        show, truth = offers[pick] if pick else (none, none)
        losses = self.of.choice(NAMES)
        name = self.of.choice(pick.split()) if pick else ""
        prefix = losses[1].removesuffix("loss")
        return {"shown": prefix + name if name else "", "show": show, "truth": truth, "names": losses}


def ordinal(c: Coin) -> Task:
    """A grade from 0 to 3, 4 or 6, frequent in the middle."""
    x = c.features(1500)
    z = (c.hidden(x) + 0.4 * c.normal(1500, 1))[:, 0]
    k = c.of.choice((4, 5, 7))
    cuts = torch.linspace(-1.4, 1.4, k - 1)
    y = torch.bucketize(z, cuts)
    seen = held_out(y, 500)
    middle = float((seen - seen.median()).abs().float().mean())

    def off(out: Tensor, t: Tensor) -> float:
        return float((out.argmax(-1) - t).abs().float().mean())

    most = float(seen.bincount().max()) / len(seen)
    offers = {
        "mae mean_abs_grade_error": (off, _gained(off, middle, 0.0)),
        "acc accuracy exact_match": (accuracy, _gained(accuracy, most)),
        "error err": (lambda o, t: 1 - accuracy(o, t), _gained(accuracy, most)),
    }
    return split(
        x, y, 500, outputs=k, loss=cross_entropy, epochs=20, **c.metric(offers, _spared(cross_entropy, _entropy(seen)))
    )


def multilabel(c: Coin) -> Task:
    """Five to eight answers of yes and no, each rare in its own way."""
    x, k = c.features(1500), c.of.choice((5, 8))
    z = torch.cat([c.hidden(x) + 0.3 * c.normal(1500, 1) for _ in range(k)], 1)
    y = (z > torch.linspace(0.2, 1.2, k)).float()
    seen = held_out(y, 500)
    share = seen.mean(0)
    constant, always = float(F.binary_cross_entropy(share.expand_as(seen), seen)), _f1(torch.ones_like(seen), seen)
    offers = {
        "f1 f1_micro micro_f1": (_f1, _gained(_f1, always)),
        "auc mean_auc roc_auc auroc": (_each_auc, _gained(_each_auc, 0.5)),
        "iou jaccard": (_iou, _gained(_iou, float(share.mean()))),
    }
    loss = F.binary_cross_entropy_with_logits
    return split(x, y, 500, outputs=k, loss=loss, epochs=20, **c.metric(offers, _spared(loss, constant)))


def imbalanced(c: Coin) -> Task:
    """Two classes, one of them seldom."""
    x = c.features(1600)
    z = c.hidden(x) + 0.3 * c.normal(1600, 1)
    share = c.of.choice((0.06, 0.12, 0.25))
    y = (z > z.quantile(1 - share)).float()
    seen = held_out(y, 600)
    constant = _entropy(seen.long())
    right = lambda o, t: float(((o > 0) == (t > 0.5)).float().mean())  # noqa: E731
    offers = {
        "balanced_accuracy bal_acc balanced_acc": (_balanced, _gained(_balanced, 0.5)),
        "auc auroc roc_auc": (auc, _gained(auc, 0.5)),
        "acc accuracy": (right, _gained(right, 1 - float(seen.mean()))),
        "f1 f1_score": (_f1, _gained(_f1, _f1(torch.ones_like(seen), seen))),
    }
    loss = F.binary_cross_entropy_with_logits
    return split(x, y, 600, outputs=1, loss=loss, epochs=20, **c.metric(offers, _spared(loss, constant)))


def _unit(c: Coin, y: Tensor) -> Tensor:
    """The target in a unit of its own, often far from 0."""
    scale = c.of.choice((0.1, 1.0, 1.0, 12.0))
    return (y + c.of.choice((0.0, 0.0, 2.0, 5.0))) * scale


def _regression(c: Coin, x: Tensor, y: Tensor, epochs: int) -> Task:
    loss = c.of.choice((F.mse_loss, F.mse_loss, F.huber_loss, F.l1_loss))
    offers = {
        "mae mean_absolute_error": (_mae, r2),
        "rmse root_mean_squared_error": (_rmse, r2),
        "r2 r2_score R2": (r2, r2),
    }
    return split(x, y, 500, outputs=y.shape[1], loss=loss, epochs=epochs, **c.metric(offers, r2))


def tabular(c: Coin) -> Task:
    """A number from features, in its own unit."""
    x = c.features(1500)
    return _regression(c, x, _unit(c, c.hidden(x) + c.of.choice((0.1, 0.5)) * c.normal(1500, 1)), 22)


def ahead(c: Coin) -> Task:
    """The next one to three values of a series with two seasons and a memory."""
    t, n = torch.arange(1560).float(), 1560
    noise = torch.zeros(n)
    shock = 0.4 * c.normal(n)
    for i in range(1, n):
        noise[i] = 0.6 * noise[i - 1] + shock[i]
    a, b = c.of.uniform(3, 9), c.of.uniform(12, 40)
    series = torch.sin(t / a) + torch.sin(t / b + 1) + noise
    series = series / series.std()
    width, far = 20, c.of.choice((1, 3))
    x = series.unfold(0, width, 1)[: n - width - far]
    y = series[width:].unfold(0, far, 1)[: len(x)]
    return _regression(c, x, _unit(c, y), 15)


def rebuild(c: Coin) -> Task:
    """The input itself, cleaned of noise: an image or a vector of few causes."""
    causes = c.normal(1400, 3)
    clean = ((causes @ c.normal(3, 20)) * 0.7).sigmoid() if c.of.random() < 0.5 else (causes @ c.normal(3, 20)) / 1.7
    x = clean + c.of.choice((0.05, 0.3)) * c.normal(1400, 20)
    return _regression(c, x, clean, 18)


def ranking(c: Coin) -> Task:
    """Lists of items of which one is right."""
    k, n = c.of.choice((6, 10)), 900
    x = c.normal(n, k, c.of.choice((5, 8)))
    y = (c.hidden(x) + 0.2 * c.normal(n, k, 1))[..., 0].argmax(1)
    loss = lambda o, t: F.cross_entropy(o.squeeze(-1), t)  # noqa: E731
    first = lambda o, t: float((_place(o, t) == 1).float().mean())  # noqa: E731
    places = torch.arange(1, k + 1).float()
    offers = {
        "mrr": (_mrr, _gained(_mrr, float((1 / places).mean()))),
        "ndcg ndcg@10": (_ndcg, _gained(_ndcg, float((1 / torch.log2(1 + places)).mean()))),
        "hit_rate hits@1 recall@1": (first, _gained(first, 1 / k)),
    }
    return split(x, y, 300, outputs=1, loss=loss, epochs=18, **c.metric(offers, _spared(loss, math.log(k))))


def masks(c: Coin) -> Task:
    """Where in a noisy signal of 24 places a bump lies."""
    n, at, half = 1400, torch.randint(4, 20, (1400, 1), generator=c.g), torch.randint(1, 4, (1400, 1), generator=c.g)
    y = ((torch.arange(24) - at).abs() <= half).float()
    x = y + c.of.choice((0.3, 0.8)) * c.normal(n, 24)
    seen = held_out(y, 400)
    share = float(seen.mean())
    wrong = float(F.binary_cross_entropy(torch.full_like(seen, share), seen))
    offers = {
        "iou mIoU jaccard": (_iou, _gained(_iou, share)),
        "dice dice_score": (_f1, _gained(_f1, _f1(torch.ones_like(seen), seen))),
    }
    loss = F.binary_cross_entropy_with_logits
    return split(x, y, 400, outputs=24, loss=loss, epochs=16, **c.metric(offers, _spared(loss, wrong)))


def many(c: Coin) -> Task:
    """Thirty to sixty classes with few samples each."""
    k = c.of.choice((30, 60))
    y = torch.arange(1800) % k
    x = c.normal(k, 10)[y] + c.of.choice((0.5, 0.9)) * c.normal(1800, 10)
    percent = c.of.choice((1, 100))
    smoothing = c.of.choice((0.0, 0.1))
    loss = lambda o, t: F.cross_entropy(o, t, label_smoothing=smoothing)  # noqa: E731
    offers = {
        "top5 acc5 top5_acc acc@5": (lambda o, t: percent * _top5(o, t), _gained(_top5, 5 / k)),
        "acc acc@1 accuracy top1": (lambda o, t: percent * accuracy(o, t), _gained(accuracy, 1 / k)),
        "err1 top1_error error_rate": (lambda o, t: percent * (1 - accuracy(o, t)), _gained(accuracy, 1 / k)),
        "mean_recall macro_recall uar": (_recall, _gained(_recall, 1 / k)),
    }
    return split(x, y, 600, outputs=k, loss=loss, epochs=20, **c.metric(offers, _spared(cross_entropy, math.log(k))))


def words(c: Coin) -> Task:
    """The next word of a chain whose words are not equally frequent."""
    k = c.of.choice((16, 40))
    power = torch.arange(1, k + 1).float() ** -c.of.choice((0.5, 1.0))
    table = (power.log() + c.of.choice((1.0, 2.0)) * c.normal(k, k)).softmax(-1)
    seq = torch.zeros(400, 17, dtype=torch.long)
    seq[:, 0] = torch.multinomial(power, 400, True, generator=c.g)
    for i in range(16):
        seq[:, i + 1] = torch.multinomial(table[seq[:, i]], 1, generator=c.g)[:, 0]
    y = seq[:, 1:]
    spared = _spared(cross_entropy, _entropy(held_out(y, 100)))
    nats = lambda o, t: float(cross_entropy(o, t))  # noqa: E731
    offers = {
        "ppl perplexity": (lambda o, t: math.exp(min(700.0, nats(o, t))), spared),
        "bpt bits_per_token bpc bits": (lambda o, t: nats(o, t) / math.log(2), spared),
    }
    return split(seq[:, :-1], y, 100, outputs=k, loss=cross_entropy, epochs=15, tokens=k, **c.metric(offers, spared))


def counts(c: Coin) -> Task:
    """How often something happens: a Poisson likelihood."""
    x = c.features(1500)
    rate = (c.of.choice((0.0, 1.5)) + 0.7 * c.hidden(x)).exp()
    y = torch.poisson(rate, generator=c.g)
    told = lambda o: o.clamp(max=30).exp()  # noqa: E731

    def deviance(o: Tensor, t: Tensor) -> float:
        m = told(o).clamp(min=1e-8)
        return float(2 * (torch.xlogy(t, t / m) - (t - m)).mean())

    seen = held_out(y, 500)
    ignorant = deviance(seen.mean().log().expand_as(seen), seen)
    spared = _gained(deviance, ignorant, 0.0)
    loss = lambda o, t: F.poisson_nll_loss(o, t)  # noqa: E731
    offers = {
        "deviance poisson_deviance": (deviance, spared),
        "mae": (lambda o, t: _mae(told(o), t), spared),
        "d2 pseudo_r2": (spared, spared),
    }
    return split(x, y, 500, outputs=1, loss=loss, epochs=20, **c.metric(offers, spared))


def spread(c: Coin) -> Task:
    """A number and how sure it is: a Gaussian likelihood, which may be negative."""
    x = c.features(1500)
    y = c.hidden(x) + c.of.choice((0.15, 0.4)) * c.normal(1500, 1)
    y = y * c.of.choice((0.3, 1.0))

    def loss(o: Tensor, t: Tensor) -> Tensor:
        return F.gaussian_nll_loss(o[:, :1], t, F.softplus(o[:, 1:]) + 1e-4)

    mean = lambda o, t: r2(o[:, :1], t)  # noqa: E731
    offers = {"r2 r2_score": (mean, mean), "rmse": (lambda o, t: _rmse(o[:, :1], t), mean), "mae": (lambda o, t: _mae(o[:, :1], t), mean)}  # fmt: skip
    return split(x, y, 500, outputs=2, loss=loss, epochs=22, **c.metric(offers, mean))


KINDS: tuple[Callable[[Coin], Task], ...] = (
    ordinal, multilabel, imbalanced, tabular, ahead, rebuild, ranking, masks, many, words, counts, spread,
)  # fmt: skip


def drawn(coin: str) -> dict[str, Callable[[], Task]]:
    """One data set of every kind, as this coin draws it."""
    return {f"{kind.__name__}_{coin}": (lambda kind=kind: kind(Coin(f"{kind.__name__} {coin}"))) for kind in KINDS}
