"""Evaluations: passes without a backward, gathered into one record each, with their loss by the best evidence there is."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from traindx.probe import Evaluation, Row
from traindx.probes import sites
from traindx.probes.passes import Pass, Pending
from traindx.probes.stage import Stage

clock = time.perf_counter
PIECES = 16  # batches of an evaluation whose losses are kept one by one
_NAMES = {n: tuple(str(i + 1) for i in range(n)) for n in range(2, PIECES + 1)}
PLAUSIBLE = 50.0  # a number read while evaluating counts as a loss only within this factor of the training loss
CLOSE = 2.0  # within this factor it is taken before others
OFTEN = 2  # updates: passes without a loss that come this often are part of the step, not evaluations
DROPPED = 3  # times in a row that passes were no evaluation: then their comparisons are no longer listened to
_DIGITS = 0.02  # half the last printed digit, of the number: coarser ones agree with anything
_THRICE = 3  # evaluations in which the same arithmetic gives what was printed
AGENT = 50  # times that the model under training was asked like that between updates: it acts, and learns from what comes
ACTING = 8  # samples: numbers read off smaller passes that come that often are a policy's or critic's at work


@dataclass
class _Open:
    """The evaluation under way."""

    evaluation: Evaluation
    key: int
    begun: float
    ended: float
    last_pass: int = 0
    own: bool = False  # the model under training was called in eval mode
    passes: dict[int, list[int]] = field(default_factory=dict)  # model → forwards, samples, in train mode, with a graph
    judged: set[int] = field(default_factory=set)  # models whose outputs met a loss or labels
    hits: list[tuple[float, int]] = field(default_factory=list)  # right, of how many: as the script compared them
    metric: bool = False  # a number that was read is their count or share
    sizes: set[int] = field(default_factory=set)  # samples of its passes
    rehearsal: bool = False  # Lightning tries the validation loop on a few batches before it trains
    loader: Any = None  # passes.Loader its batches came from
    line: str = ""  # of the user's code, where it calls the model
    calls: list[tuple[Any, int]] = field(default_factory=list)  # loss of a batch as its loss call gave it, samples
    reads: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)  # site → (value, samples, pass)


class Evaluations:
    """Opens, fills and closes evaluations."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._recorder, self._scene = stage, stage.recorder, stage.scene
        self._open: _Open | None = None
        self._kinds: set[str] = set()  # loss functions that were trained with
        self._datasets: set[int] = set()  # that were trained on
        self._losses: deque[float] = deque(maxlen=20)  # recent training losses, to judge what is read
        self._site = ""  # where the loss was read last time
        self._odd: dict[str, list[float]] = {}  # wrong arithmetic → what it gave, as long as that was printed every time
        self._main = 0  # key of the validation data proper: the first that was evaluated
        self._main_trains, self._main_at = False, -1  # that is a part of what is trained on; where it was evaluated last
        self._seen_loss = False
        self._unseen = self._recorded = 0  # evaluations without and with a loss
        self._dropped = 0  # times in a row that it was none
        self._acts = 0  # times that the model was asked for a few samples between two updates
        self._bare = -1  # the update after which passes without a loss were seen last
        self.fetched_at = 0.0

    # -- what training tells

    def trained_with(self, name: str) -> None:
        """A call of this loss function was trained through."""
        self._kinds.add(name)

    def train_storage(self, this: Pass) -> None:
        """This pass was trained on."""
        if this.loader is not None:
            self._datasets.add(this.loader.dataset)

    def trained(self, loss: float) -> None:
        """A training loss, to compare with."""
        self._losses.append(loss)
        self._stage.patches.scalars = False

    def trained_on(self, value: float) -> bool:
        """Whether this is the latest training loss."""
        return bool(self._losses) and self._losses[-1] == value

    # -- what evaluating brings

    def forward(self, this: Pass) -> None:
        """A pass of the evaluation."""
        key = id(this.loader.ref()) if this.loader is not None else 0
        open_ = self._at(key, this.begun)
        if open_.last_pass == this.serial:
            return
        open_.last_pass, open_.ended = this.serial, this.ended
        counts = open_.passes.setdefault(this.model, [0, 0, 0, 0])
        for i, n in enumerate((1, this.samples, this.training, this.grad)):
            counts[i] += n
        open_.sizes.add(this.samples)
        open_.own = open_.own or (not this.training and self._stage.trains(this.model))
        if not this.grad and not open_.line and "evaluate" not in self._stage.lines.known:
            open_.line = sites.line()  # the call of the model: those with a graph are told of later, from elsewhere
        if this.loader is not None:
            this.loader.val += 1
            open_.loader, open_.evaluation.loader = this.loader, this.loader.ref()

    def loss(self, waiting: Pending, latest: Pass | None) -> None:
        """A loss call of the evaluation."""
        of = waiting.of or latest
        if of is not None:
            self.forward(of)
        open_ = self._open or self._at(0, clock())
        open_.ended = clock()
        open_.line = open_.line or waiting.site
        if of is not None:
            open_.judged.add(of.model)
        if waiting.value is not None and (not self._kinds or waiting.name in self._kinds):
            samples = of.samples if of is not None else waiting.samples
            open_.evaluation.samples += 0 if of is not None else samples
            open_.evaluation.batches += of is None
            open_.calls.append((waiting.value / max(waiting.summed, 1), max(samples, 1)))

    def read(self, value: float, site: str, latest: Pass | None) -> None:
        """A number the script read while evaluating."""
        if self._open is not None and not _counts_hits(self._open, value) and isinstance(value, float):
            samples, serial = (latest.samples, latest.serial) if latest is not None else (1, 0)
            self._open.reads.setdefault(site, []).append((value, max(samples, 1), serial))

    def compared(self, latest: Pass, hits: Any, count: int) -> None:
        """The script compared predictions with labels: it computes a metric."""
        if self._open is not None:
            self._open.judged.add(latest.model)
            if isinstance(hits, float):
                self._open.hits.append((hits, count))

    def printed(self, things: tuple[Any, ...]) -> None:
        """Something was printed: perhaps the mean loss of the evaluation, rightly or wrongly taken."""
        open_ = self._open
        if open_ is not None and open_.evaluation.claimed is None:
            open_.evaluation.claimed = claimed_accuracy(things)
        if open_ is None or not open_.calls or not all(isinstance(v, float) for v, _ in open_.calls):
            return
        total, whole = sum(v for v, _ in open_.calls), sum(v * n for v, n in open_.calls)
        batches, samples = len(open_.calls), sum(n for _, n in open_.calls)
        plain, right = total / batches, whole / samples
        said = numbers(things)
        for number, half in said:
            as_plain, as_right = (_is(number, half, mean) for mean in (plain, right))
            if as_plain or as_right:
                self._odd.clear()
                if as_plain != as_right:
                    open_.evaluation.printed = plain if as_plain else right
                return
        # Divided by the wrong count: a coincidence once, the script's arithmetic when it goes along with a changing loss.
        for how, value in (("of means", total / samples), ("undivided", total), ("of sums", whole / batches)):
            close = [half for number, half in said if _is(number, half, value) and half <= _DIGITS * abs(number)]
            if not close:
                self._odd.pop(how, None)
                continue
            met = self._odd.setdefault(how, [])
            met.append(value)
            if len(met) >= _THRICE and max(met) - min(met) > 10 * max(max(close), 1e-6 * abs(value)):
                open_.evaluation.printed = value

    def _sum_up(self, open_: _Open) -> None:
        """Count the passes of the models that were evaluated; a teacher that works for the next step is none of them."""
        evaluation = open_.evaluation
        kept = {m: n for m, n in open_.passes.items() if m in open_.judged or self._stage.trains(m)} or open_.passes
        evaluation.models = frozenset(kept)
        for forwards, samples, training, grad in kept.values():
            evaluation.forwards += forwards
            evaluation.batches += forwards
            evaluation.samples += samples
            evaluation.train_mode += training
            evaluation.grad_enabled += grad

    def _at(self, key: int, begun: float) -> _Open:
        if self._open is not None and self._open.key != key:
            self.end()
        if self._open is None:
            start = self.fetched_at if 0 < begun - self.fetched_at < 60 else begun
            self._open = _Open(Evaluation(max(self._scene.step - 1, 0)), key, start, begun)
            self._stage.patches.scalars = True
            self._stage.patches.compare(self._dropped < DROPPED)
            self._open.rehearsal = not self._recorder.started and _rehearses()
            self._recorder.tell("on_eval_begin", self._open.evaluation)
        return self._open

    # -- the end of one

    def end(self) -> None:
        """Close the evaluation under way, if there is one, and record it."""
        open_, self._open = self._open, None
        if open_ is None:
            return
        self._stage.patches.compare(False)
        evaluation = open_.evaluation
        evaluation.seconds = open_.ended - open_.begun
        self._sum_up(open_)
        values = self._values(open_)
        if not self._counts(open_, values):
            self._dropped += 1
            self._recorder.tell("on_eval_dropped", evaluation)
            return
        self._dropped = 0
        if open_.metric:
            evaluation.hits = sum(h for h, _ in open_.hits), sum(n for _, n in open_.hits)
        self._stage.step.eval_s += evaluation.seconds
        self._stage.passed()
        on_train = evaluation.loader is not None and id(getattr(evaluation.loader, "dataset", None)) in self._datasets
        if not on_train:
            self._stage.lines.put("evaluate", open_.line)
            self._stage.lines.feeds("val_loader", evaluation.loader)
        back = self._recorder.apart()
        if values:
            self._record(values, evaluation, on_train, open_.key)
        self._recorder.tell("on_eval_dropped" if on_train else "on_eval_end", evaluation)
        back(evaluation.step)
        data = {
            "samples": evaluation.samples,
            "batches": evaluation.batches,
            "seconds": evaluation.seconds,
            "on_train": on_train,
        }
        self._recorder.event("evaluation", data)

    def _counts(self, open_: _Open, values: list[tuple[Any, int]]) -> bool:
        """Whether it was an evaluation: outputs met a loss or labels, or came from a loader that is not trained on.

        Without any of these it may still be one if the model under training was in eval mode, but not when it comes with
        every update: teachers, target networks and policies at work look just like that.
        """
        if open_.rehearsal:
            return False
        if open_.calls or open_.judged:
            return True
        other = open_.loader is not None and not open_.loader.train
        if other:
            return bool(values) or self._recorder.started
        step = self._scene.step
        often, self._bare = step - self._bare <= OFTEN, step
        if often:
            few = open_.evaluation.samples < ACTING * open_.evaluation.forwards
            if few and any(self._stage.trains(m) for m in open_.passes):
                self._acts += 1
                if self._acts == AGENT:
                    self._scene.fact("acts", True)
            return bool(values) and not few
        return bool(values) or (open_.own and self._recorder.started)

    def anew(self) -> None:
        """Another training begins: other data, another loss."""
        self._kinds.clear()
        self._datasets.clear()
        self._losses.clear()
        self._site = ""
        self._main, self._main_trains, self._bare = 0, False, self._scene.step

    def _values(self, open_: _Open) -> list[tuple[Any, int]]:
        """Loss and samples of each batch: from loss calls, else from what the script read."""
        if open_.calls:
            self._seen_loss = True
            return open_.calls
        sizes = {*open_.sizes, open_.evaluation.samples}
        site = self._loss_among({s: seen for s, seen in open_.reads.items() if not all(_share(v, sizes) for v, _, _ in seen)})
        if site is not None:
            self._site = site
            return [(v, n) for v, n, _ in open_.reads[site]]
        self._unseen += bool(open_.own or open_.judged)
        return []

    def _loss_among(self, reads: dict[str, list[tuple[float, int, int]]]) -> str | None:
        """Where the loss was read: where it was last time, else the first number close to the training loss, else the first
        that may be one (programs read the loss first by habit); None when nothing may be.
        """
        near = sorted(self._losses)[len(self._losses) // 2] if self._losses else 0.0
        off: dict[str, float] = {}
        for site, seen in reads.items():
            typical = sorted(v for v, _, _ in seen)[len(seen) // 2]
            if near and typical and (typical > 0) == (near > 0):
                off[site] = max(typical / near, near / typical)
        if off.get(self._site, PLAUSIBLE) < PLAUSIBLE:
            return self._site
        return next((s for limit in (CLOSE, PLAUSIBLE) for s, factor in off.items() if factor < limit), None)

    def finish(self) -> None:
        """The end of the run: say so when evaluations were seen but never their loss."""
        self.end()
        if self._unseen and not self._recorded:
            self._scene.blind("loss/val", "evaluation passes were seen, but no loss call and no loss that was read as a number")
        elif not self._recorded:
            self._scene.blind("loss/val", "no evaluation was seen")

    def _record(self, values: list[tuple[Any, int]], evaluation: Evaluation, on_train: bool, key: int) -> None:
        reading = _summary(values)
        if on_train:
            self._recorder.take({"eval/train_in_eval": reading["loss/val"]})
            return
        self._recorded += 1
        self._choose(evaluation, key)
        if evaluation.other:
            self._recorder.take({"metric/other/loss": reading["loss/val"]})
            return
        share = 1.0 / max(evaluation.forwards, 1)
        reading["eval/samples"] = float(evaluation.samples)
        reading["eval/train_mode"] = evaluation.train_mode * share
        if evaluation.train_mode:
            reading["eval/minds_mode"] = float(self._stage.minds_mode(evaluation.models))
        reading["eval/grad_enabled"] = evaluation.grad_enabled * share
        if 1 < len(values) <= PIECES:
            reading["eval/loss/batch"] = Row(_NAMES[len(values)], _losses(values).float())
        self._recorder.take(reading)

    def _choose(self, evaluation: Evaluation, key: int) -> None:
        """The validation set is what is evaluated first between two updates, unless that is a part of the training set and
        something else is not. Loaders may be made anew for every evaluation.
        """
        within = self._within_training(evaluation.loader)
        beside = self._main not in (key, 0) and self._main_at == evaluation.step and not self._main_trains
        evaluation.other = beside or (within and self._main != 0 and not self._main_trains)
        if not evaluation.other:
            self._main, self._main_trains, self._main_at = key or -1, within, evaluation.step

    def _within_training(self, loader: Any) -> bool:
        """Whether a loader's data set is made of one that is trained on: a Subset of it, say."""
        dataset = getattr(loader, "dataset", None)
        for _ in range(4):
            if dataset is None:
                return False
            if id(dataset) in self._datasets:
                return True
            dataset = getattr(dataset, "dataset", None)
        return False


def _is(number: float, half: float, mean: float) -> bool:
    """Whether a printed number, known to half its last digit, is this mean."""
    return abs(number - mean) <= max(half, 1e-6 * abs(mean))


def _rehearses() -> bool:
    """Whether we were called from Lightning's sanity check."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_run_sanity_check":
            return True
        frame = frame.f_back
    return False


def _share(value: float, sizes: Iterable[int]) -> bool:
    """Whether a number is a whole count over one of these sizes, to the last digit: an accuracy, by whatever way it was taken.

    >>> _share(526 / 540, {1257, 540}), _share(0.9741, {1257, 540})
    (True, False)
    """
    return 0 <= value <= 1 and any(n > 1 and abs(value * n - round(value * n)) < min(2e-7 * n, 1e-3) for n in sizes)


def _counts_hits(open_: _Open, value: float) -> bool:
    """Whether a number that was read is how many predictions were right, or their share, of this batch or of all so far."""
    if not open_.hits:
        return False
    all_hits, every = sum(h for h, _ in open_.hits), sum(n for _, n in open_.hits)
    for hits, count in ((open_.hits[-1]), (all_hits, every)):
        if value == hits or any(abs(value - scale * hits / count) < 1e-5 * scale for scale in (1.0, 100.0)):
            open_.metric = True
            return True
    return False


def claimed_accuracy(things: tuple[Any, ...]) -> float | None:
    """The validation accuracy among what is printed, as a share: a number behind a word with "acc" that is not of training.

    >>> claimed_accuracy(("epoch 3 train_acc 0.9 val_acc: 0.4375",))
    0.4375
    >>> claimed_accuracy(("Accuracy = 93.5%, best acc 95.0%",))
    0.935
    >>> claimed_accuracy(("loss", 0.25, "val acc", 0))
    0.0
    >>> claimed_accuracy(("train acc 0.9, best_val_acc 0.8, top5 accuracy 0.99",)) is None
    True
    """
    text = " ".join(str(t)[:500] for t in things[:20] if isinstance(t, str | int | float) and not isinstance(t, bool))
    found = [(words.lower(), float(n), bool(percent)) for words, n, percent in _ACCURACY.findall(text)]
    other = ("train", "tr_", "tr ", "best", "max", "top", "balanced", "mean", "avg", "ema", "running", "exact")
    kept = [f for f in found if not any(word in f[0] for word in other)]
    named = [f for f in kept if any(word in f[0] for word in ("val", "test", "eval", "dev"))]
    chosen = named or kept
    if len(chosen) != 1:
        return None
    _, value, percent = chosen[0]
    share = value / 100 if percent or value > 1 else value
    return share if 0 <= share <= 1 else None


# up to two words, the last of which begins or ends with "acc…", then a number
_ACCURACY = re.compile(
    r"((?:[A-Za-z@][\w@]*[ _/-])?[A-Za-z_@/]*[Aa][Cc][Cc]\w*)\s*[:=]?\s*\(?(\d+(?:\.\d+)?(?:[eE]-?\d+)?)\s*(%?)"
)


def numbers(things: tuple[Any, ...]) -> list[tuple[float, float]]:
    """The numbers among what is printed, each with half of its last digit.

    >>> numbers(("epoch 3", 0.25, "loss 1.250"))
    [(0.25, 0.0), (1.25, 0.0005)]
    """
    found: list[tuple[float, float]] = []
    for thing in things[:20]:
        if isinstance(thing, float):
            found.append((thing, 0.0))
        elif isinstance(thing, str):
            for text in _NUMBER.findall(thing[:500]):
                digits, _, power = text.lower().partition("e")
                found.append((float(text), 0.5 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))))
    return found


_NUMBER = re.compile(r"-?\d+\.\d+(?:[eE][+-]?\d+)?")


def _losses(values: list[tuple[Any, int]]) -> Tensor:
    """(n,) the losses of the batches of an evaluation."""
    if all(isinstance(v, float) for v, _ in values):
        return torch.tensor([v for v, _ in values], dtype=torch.float64, device="cpu")
    return torch.stack([v.reshape(()).double() for v, _ in values if isinstance(v, Tensor)])


def _summary(values: list[tuple[Any, int]]) -> dict[str, Any]:
    """loss/val, sample-weighted; the unweighted mean beside it; its standard error from the spread over batches."""
    losses = _losses(values)
    share = torch.tensor([float(n) for _, n in values], dtype=torch.float64, device="cpu").to(losses.device)
    share = share / share.sum()
    mean = (losses * share).sum()
    out = {"loss/val": mean, "eval/unweighted_loss": losses.mean()}
    n = len(values)
    if n > 1:
        out["eval/loss_se"] = ((share * (losses - mean)) ** 2).sum().sqrt() * (n / (n - 1)) ** 0.5
    return out
