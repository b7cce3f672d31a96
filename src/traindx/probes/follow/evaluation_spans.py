"""Evaluations: passes without a backward, gathered into one record each, with their loss by the best evidence there is."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from traindx.probe import Evaluation, Row
from traindx.probes.follow import printed_scores
from traindx.probes.follow.models import Stage
from traindx.probes.read.common import sites
from traindx.probes.read.common.passes import Pass, Pending

clock = time.perf_counter
PIECES = 16  # batches of an evaluation whose losses are kept one by one
_NAMES = {n: tuple(str(i + 1) for i in range(n)) for n in range(2, PIECES + 1)}
PLAUSIBLE = 50.0  # a number read while evaluating counts as a loss only within this factor of the training loss
CLOSE = 2.0  # within this factor it is taken before others
OFTEN = 2  # updates: passes without a loss that come this often are part of the step, not evaluations
DROPPED = 3  # times in a row that passes were no evaluation: then their comparisons are no longer listened to
AGENT = 50  # times that the model under training was asked like that between updates: it acts, and learns from what comes
ACTING = 8  # samples: numbers read off smaller passes that come that often are a policy's or critic's at work

_DRAWS = 3  # passes in train mode over one and the same input: samples of a model that is random on purpose


@dataclass
class _Open:
    """The evaluation under way."""

    evaluation: Evaluation
    key: int
    begun: float
    ended: float
    last_pass: int = 0
    place: int = 0  # of its passes without a loader (`sites.way`)
    told: bool = False  # a loss or a number came of the latest pass
    terms: set[str] = field(default_factory=set)  # its loss calls, by name and line
    own: bool = False  # the model under training was called in eval mode
    passes: dict[int, list[int]] = field(default_factory=dict)  # model → forwards, samples, in train mode, with a graph
    judged: set[int] = field(default_factory=set)  # models whose outputs met a loss or labels
    hits: list[tuple[float, int]] = field(default_factory=list)  # right, of how many: as the script compared them
    draws: int = 0  # times that somebody drew from a distribution meanwhile
    metric: bool = False  # a number that was read is their count or share
    sizes: set[int] = field(default_factory=set)  # samples of its passes
    named: bool = False  # an accuracy was printed that is of validation by its name
    rehearsal: bool = False  # Lightning tries the validation loop on a few batches before it trains
    loader: Any = None  # passes.Loader its batches came from
    line: str = ""  # of the user's code, where it calls the model
    calls: list[tuple[Any, int]] = field(default_factory=list)  # loss of a batch as its loss call gave it, samples
    targets: list[tuple[int, int]] = field(default_factory=list)  # of each call: how many count, of how many
    reads: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)  # site → (value, samples, pass)
    again: tuple[int, int] = (0, 0)  # what the latest pass in train mode was given, and how many passes had it

    @property
    def name(self) -> int:
        """What it is known by: its loader, or else the place in the code."""
        return self.key or self.place

    def drawn(self, this: Pass) -> None:
        """A pass in train mode: the same input over and over is sampling on purpose (dropout at work), not a mode forgotten."""
        source = this.fed() if this.fed is not None else None
        same = source is not None and self.again[0] == id(source)
        times = self.again[1] + 1 if same else 1
        self.again = (id(source) if source is not None else 0, times)
        if times >= _DRAWS:
            self.passes[this.model][2] -= times if times == _DRAWS else 1


class Apart:
    """Without a loader: which passes of an evaluation were over training data, when there are others next to them.

    Decided at the first evaluation and kept: a validation loss that begins with training data in it and continues without would
    seem to jump. Data that are evaluated alone are the validation data, whatever they share with training (DATA006).
    """

    _TRAINED = -2  # key of an evaluation over training data
    _SHARE = 0.2  # of the samples asked for that must have been trained on; not all of those are remembered

    def __init__(self) -> None:
        self.known: dict[int, bool] = {}  # name of the data → trained on
        self._other = False  # data that were not trained on have been evaluated
        self._decided: bool | None = None  # there are both, or only the trained ones
        self._begun = False  # an evaluation is over

    def asks(self, under_way: bool) -> bool:
        """Whether it matters what the next pass is over: always where there are both kinds, at first, and where one begins."""
        return self._decided is True or (self._decided is None and not (self._begun and under_way))

    def key(self, remembered: tuple[int, float] | None, now: int) -> int:
        """The key of a pass over these data; where they are not known, that of the evaluation under way."""
        if self._decided is False:
            return 0
        if remembered is None:
            return now if now == self._TRAINED else 0
        name, share = remembered
        if len(self.known) < 10_000:
            trained = self.known.setdefault(name, share >= self._SHARE)
        else:
            trained = self.known.get(name, False)
        self._other = self._other or not trained
        return self._TRAINED if trained else 0

    def both(self, one: int, two: int) -> None:
        """Data of the one kind follow those of the other within an evaluation."""
        if self._decided is None and {one, two} == {0, self._TRAINED}:
            self._decided = True

    def trained(self, key: int) -> bool:
        """Whether an evaluation that ends was over training data next to others."""
        self._begun = True
        if key == self._TRAINED and self._decided is None:
            self._decided = self._other
        return key == self._TRAINED and bool(self._decided)


class Evaluations:
    """Opens, fills and closes evaluations."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._recorder, self._scene = stage, stage.recorder, stage.scene
        self._open: _Open | None = None
        self._kinds: set[str] = set()  # loss functions that were trained with
        self._datasets: set[int] = set()  # that were trained on
        self._losses: deque[float] = deque(maxlen=20)  # recent training losses, to judge what is read
        self._site = ""  # where the loss was read last time
        self._arithmetic, self._echo = printed_scores.Arithmetic(), printed_scores.Echo()
        self._apart = Apart()
        self._main = 0  # key of the validation data proper: the first that was evaluated
        self._main_trains, self._main_at = False, -1  # that is a part of what is trained on; where it was evaluated last
        self.composed = False  # the latest training loss was more than what one loss call gave
        self._turns = False  # places in the code take turns within an evaluation
        self._left: tuple[int, set[int]] = (-1, set())  # the step, and places where an evaluation ended since
        self._unseen = self._recorded = 0  # evaluations without and with a loss
        self._dropped = 0  # times in a row that it was none
        self._acts = 0  # times that the model was asked for a few samples between two updates
        self._acted = -1
        self._rollouts = 0  # stretches between updates in which the model was asked, and its answers were drawn from
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

    @property
    def listens(self) -> bool:
        """Whether passes may be evaluations: too often they were none."""
        return self._dropped < DROPPED

    @property
    def asks(self) -> Mapping[int, bool] | None:
        """The data that are known by name, when it matters whether those of the next pass were trained on."""
        return self._apart.known if self.listens and self._apart.asks(self._open is not None) else None

    def trained_on(self, value: float) -> bool:
        """Whether this is the latest training loss."""
        return bool(self._losses) and self._losses[-1] == value

    # -- what evaluating brings

    def forward(self, this: Pass) -> None:
        """A pass of the evaluation."""
        now = self._open.key if self._open is not None else 0
        key = id(this.loader.ref()) if this.loader is not None else self._apart.key(this.remembered, now)
        open_ = self._at(key, this.begun, this)
        open_.told = False
        if open_.last_pass == this.serial:
            return
        open_.last_pass, open_.ended = this.serial, this.ended
        counts = open_.passes.setdefault(this.model, [0, 0, 0, 0])
        for i, n in enumerate((1, this.samples, this.training, this.grad)):
            counts[i] += n
        if this.training:
            open_.drawn(this)
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
        open_.ended, open_.told = clock(), True
        open_.line = open_.line or waiting.site
        if of is not None:
            open_.judged.add(of.model)
        if waiting.value is not None and (not self._kinds or waiting.name in self._kinds):
            samples = of.samples if of is not None else waiting.samples
            open_.evaluation.samples += 0 if of is not None else samples
            open_.evaluation.batches += of is None
            open_.terms.add(f"{waiting.name} {waiting.site}")
            open_.calls.append((waiting.value / max(waiting.summed, 1), max(samples, 1)))
            open_.targets.append(waiting.targets)

    def read(self, value: float, site: str, latest: Pass | None) -> None:
        """A number the script read while evaluating."""
        if self._open is not None and not _counts_hits(self._open, value) and isinstance(value, float):
            samples, serial = (latest.samples, latest.serial) if latest is not None else (1, 0)
            self._open.told = True
            self._open.reads.setdefault(site, []).append((value, max(samples, 1), serial))

    def compared(self, latest: Pass, hits: Any, count: int) -> None:
        """The script compared predictions with labels: it computes a metric."""
        if self._open is not None:
            self._open.judged.add(latest.model)
            self._open.told = True
            if isinstance(hits, float):
                self._open.hits.append((hits, count))
                self._stage.lines.here("compared")

    def sampled(self) -> None:
        """Somebody drew from a distribution: what a policy says is acted upon."""
        if self._open is not None and self._open.loader is None:
            self._open.draws += 1

    def answered(self, truth: Any, guess: Any, answers: bool) -> None:
        """Labels and predictions were handed to a metric; all of them, when there is one for each sample of the evaluation."""
        open_ = self._open
        if open_ is None:
            return
        whole = len(truth)  # a copy of the model is not trained: what it answered is known by the number of answers
        open_.judged |= {m for m, (_, n, _, _) in open_.passes.items() if self._stage.trains(m) or n == whole}
        samples = sum(n for m, (_, n, _, _) in open_.passes.items() if m in open_.judged)
        if answers and len(truth) == len(guess) == samples:
            open_.evaluation.answers = truth, guess

    def printed(self, things: tuple[Any, ...]) -> None:
        """Something was printed: perhaps what the evaluation came to, rightly or wrongly taken."""
        open_ = self._open
        things = printed_scores.spoken(things)
        if open_ is None:
            if self._recorder.started and (aside := printed_scores.accuracy(things, named=True)) is not None:
                self._echo.repeated(self._scene.step, aside[0])
                if (found := self._echo.found) is not None:
                    self._scene.fact("eval.echo", found)
            return
        if open_.evaluation.claimed is None:
            open_.evaluation.claimed = printed_scores.accuracy(things)
            open_.named = printed_scores.accuracy(things, named=True) is not None
            if open_.evaluation.claimed is not None:
                self._stage.lines.here("metric")
        if open_.calls and all(isinstance(v, float) for v, _ in open_.calls):
            if (own := printed_scores.split_off(things, [v for v, _ in open_.calls])) is not None:
                open_.calls, open_.targets, open_.evaluation.mixed = open_.calls[own], open_.targets[own], True
            told = self._arithmetic.hear(things, open_.calls, open_.targets, open_.name)
            if told is not None:
                open_.evaluation.printed, open_.evaluation.formula = told
                self._stage.lines.here("mean")

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

    def _at(self, key: int, begun: float, this: Pass | None = None) -> _Open:
        if self._open is not None and self._open.key != key:
            self._apart.both(self._open.key, key)
            self.end()
        elif self._open is not None and this is not None and self._elsewhere(self._open, this):
            self._left[1].add(self._open.place)
            self.end()
        if self._open is None:
            start = self.fetched_at if 0 < begun - self.fetched_at < 60 else begun
            self._open = _Open(Evaluation(max(self._scene.step - 1, 0)), key, start, begun)
            self._open.place = this.place if this is not None else 0
            self._stage.patches.scalars = True
            self._stage.patches.compare(self.listens)
            self._open.rehearsal = not self._recorder.started and _rehearses()
            self._recorder.tell("on_eval_begin", self._open.evaluation)
        return self._open

    def _elsewhere(self, open_: _Open, this: Pass) -> bool:
        """Whether a pass without a loader begins another evaluation: of the same model, asked from another place in the code,
        after the losses of the passes before it. Places that take turns belong to one evaluation."""
        if self._left[0] != self._scene.step:
            self._left = self._scene.step, set()
        self._turns = self._turns or (this.place != open_.place and this.place in self._left[1])
        moved = 0 not in (this.place, open_.place) and this.place != open_.place
        return moved and open_.told and this.model in open_.passes and not self._turns

    # -- the end of one

    def end(self) -> None:
        """Close the evaluation under way, if there is one, and record it."""
        open_, self._open = self._open, None
        if open_ is None:
            return
        self._stage.patches.compare(False)
        self._arithmetic.end(open_.calls, open_.name)
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
        if len({n for _, n in open_.hits}) > 1:  # over batches of one size it is what the predictions give
            evaluation.mean_hits = sum(h / n for h, n in open_.hits) / len(open_.hits)
        self._echo.measured(self._scene.step, None if evaluation.claimed is None else evaluation.claimed[0])
        if "eval.echo" in self._scene.facts:
            self._scene.fact("eval.echo", None)  # it was evaluated after all
        self._stage.step.eval_s += evaluation.seconds
        self._stage.passed()
        on_train = evaluation.loader is not None and id(getattr(evaluation.loader, "dataset", None)) in self._datasets
        on_train = on_train or self._apart.trained(open_.key)
        if not on_train:
            self._stage.lines.put("evaluate", open_.line)
        self._stage.lines.feeds("judged_loader" if on_train else "val_loader", evaluation.loader)
        back = self._recorder.apart()
        evaluation.other = self._beside(open_.name)
        if values:
            self._record(values, evaluation, on_train, max(open_.key, 0) or open_.place)
        elif open_.judged and not on_train:
            self._recorder.take(self._manner(evaluation), "evaluation_spans")
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
        """Whether it was an evaluation: outputs met a loss or labels, came from a loader that is not trained on, or a
        validation accuracy was printed of them.

        Without any of these it may still be one if the model under training was in eval mode, but not when it comes with
        every update: teachers, target networks and policies at work look just like that.
        """
        if open_.rehearsal:
            return False
        if open_.calls or open_.judged or open_.named:
            return True
        other = open_.loader is not None and not open_.loader.train
        if other:
            return bool(values) or self._recorder.started
        if open_.draws and 2 * open_.draws >= max(forwards for forwards, *_ in open_.passes.values()):
            self._rollouts += 1
            self.acted(open_.sizes)
            return False
        step = self._scene.step
        often, self._bare = step - self._bare <= OFTEN, step
        if often:
            own = [counts for model, counts in open_.passes.items() if self._stage.trains(model)]
            few = all(0 < samples < ACTING * forwards for forwards, samples, *_ in own)  # 0: a model that is given nothing
            if own and few:
                self.acted({n for n in open_.sizes if n < ACTING})
            return bool(values) and not few
        return bool(values) or (open_.own and self._recorder.started)

    def acted(self, sizes: Iterable[int] = ()) -> None:
        """The model under training was asked for so few samples before this update; how many times says nothing.

        Once that has happened often enough, passes without gradients over as many samples are no longer heard of.
        """
        self._acts += self._scene.step > self._acted
        self._acted = self._scene.step
        if self._acts >= AGENT or self._rollouts >= DROPPED:
            self._scene.fact("acts", True)
            self._stage.patches.acts |= {n for n in sizes if n}

    def anew(self) -> None:
        """Another training begins: other data, another loss."""
        self._kinds.clear()
        self._datasets.clear()
        self._apart = Apart()
        self._losses.clear()
        self._site = ""
        self._main, self._main_trains, self._bare = 0, False, self._scene.step

    def _values(self, open_: _Open) -> list[tuple[Any, int]]:
        """Loss and samples of each batch: from loss calls, else from what the script read."""
        sizes = {*open_.sizes, open_.evaluation.samples}
        reads = {s: seen for s, seen in open_.reads.items() if not all(_share(v, sizes) for v, _, _ in seen)}
        if open_.calls:
            reads = self._whole(open_, reads) if self.composed else {}
            if not reads and (len(open_.terms) == 1 or not self.composed):
                return open_.calls
            open_.evaluation.part = True
        site = self._loss_among(reads)
        if site is not None:
            self._site = site
            return [(v, n) for v, n, _ in open_.reads[site]]
        self._unseen += bool(open_.own or open_.judged)
        return []

    def _whole(self, open_: _Open, reads: dict[str, list[tuple[float, int, int]]]) -> dict[str, list[tuple[float, int, int]]]:
        """Where the script read its own loss of each batch, when it trains with more than one loss call gives: not where the
        call of the evaluation is as close to the training loss."""
        each = {s: seen for s, seen in reads.items() if len(seen) * len(open_.terms) == len(open_.calls)}
        each = {s: seen for s, seen in each.items() if len({of for _, _, of in seen}) == len(seen)}
        if len(open_.terms) > 1 or self._site in each:
            return each
        calls = [(v, n, 0) for v, n in open_.calls if isinstance(v, float)]
        if self._far({"": calls}).get("", PLAUSIBLE) < CLOSE:
            return {}
        off = self._far(each)
        return {s: seen for s, seen in each.items() if off.get(s, PLAUSIBLE) < CLOSE}

    def _far(self, reads: dict[str, list[tuple[float, int, int]]]) -> dict[str, float]:
        """By which factor the numbers read at each place are away from the training loss; none where it has another sign."""
        near = sorted(self._losses)[len(self._losses) // 2] if self._losses else 0.0
        off: dict[str, float] = {}
        for site, seen in reads.items():
            typical = sorted(v for v, _, _ in seen)[len(seen) // 2] if seen else 0.0
            if near and typical and (typical > 0) == (near > 0):
                off[site] = max(typical / near, near / typical)
        return off

    def _loss_among(self, reads: dict[str, list[tuple[float, int, int]]]) -> str | None:
        """Where the loss was read: where it was last time, else the first number close to the training loss, else the first
        that may be one (programs read the loss first by habit); None when nothing may be.
        """
        off = self._far(reads)
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
            self._recorder.take({"eval/train_in_eval": reading["loss/val"]}, "evaluation_spans")
            return
        self._recorded += 1
        self._choose(evaluation, key)
        if evaluation.other:
            self._recorder.take({"metric/other/loss": reading["loss/val"]}, "evaluation_spans")
            return
        if 1 < len(values) <= PIECES:
            reading["eval/loss/batch"] = Row(_NAMES[len(values)], _losses(values).float())
        self._recorder.take(reading | self._manner(evaluation), "evaluation_spans")

    def _manner(self, evaluation: Evaluation) -> dict[str, float]:
        """How much was evaluated, and in which manner."""
        share = 1.0 / max(evaluation.forwards, 1)
        out = {"eval/samples": float(evaluation.samples), "eval/train_mode": evaluation.train_mode * share}
        if evaluation.train_mode:
            out["eval/minds_mode"] = float(self._stage.minds_mode(evaluation.models))
        return out | {"eval/grad_enabled": evaluation.grad_enabled * share}

    def _choose(self, evaluation: Evaluation, key: int) -> None:
        """The validation set is what is evaluated first between two updates, unless that is a part of the training set and
        something else is not. Loaders may be made anew for every evaluation.
        """
        within = self._within_training(evaluation.loader)
        evaluation.other = evaluation.other or (within and self._main != 0 and not self._main_trains)
        if not evaluation.other:
            self._main, self._main_trains, self._main_at = key or -1, within, evaluation.step

    def _beside(self, key: int) -> bool:
        """Whether the validation set has been evaluated at this step, and this is another one."""
        return self._main not in (key, 0) and self._main_at == max(self._scene.step - 1, 0) and not self._main_trains

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


def _losses(values: list[tuple[Any, int]]) -> Tensor:
    """(n,) the losses of the batches of an evaluation."""
    if all(isinstance(v, float) for v, _ in values):
        return torch.tensor([v for v, _ in values], dtype=torch.float64, device="cpu")
    return torch.stack([v.reshape(()).double() for v, _ in values if isinstance(v, Tensor)])


def _summary(values: list[tuple[Any, int]]) -> dict[str, Any]:
    """loss/val, sample-weighted; the unweighted mean next to it; its standard error from the spread over batches."""
    losses = _losses(values)
    share = torch.tensor([float(n) for _, n in values], dtype=torch.float64, device="cpu").to(losses.device)
    share = share / share.sum()
    mean = (losses * share).sum()
    out = {"loss/val": mean, "eval/unweighted_loss": losses.mean()}
    n = len(values)
    if n > 1:
        out["eval/loss_se"] = ((share * (losses - mean)) ** 2).sum().sqrt() * (n / (n - 1)) ** 0.5
    return out
