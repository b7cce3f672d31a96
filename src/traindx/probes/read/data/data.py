"""What is fed: batches as they come from a loader or, without one, as the model's inputs and the loss call's targets.

Contents are remembered as hashes and sums, never as samples. Full steps are looked at closely; in between, a small
allowance of time goes into fingerprints, ranges and content hashes, so that a long run still covers its data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from traindx.probe import OTHER, TRAIN, VAL, Evaluation, Forward, LossCall, Probe, Reading, Row, Scene
from traindx.probes.read.common import batches, graph, losses
from traindx.probes.read.common.allowance import Allowance
from traindx.probes.read.common.batches import Batch
from traindx.probes.read.common.tally import with_withdrawals
from traindx.probes.read.data import contents, one_batch
from traindx.probes.read.data.extremes import Extremes
from traindx.probes.read.data.feed_facts import input_stats, of_training, of_validation
from traindx.probes.read.data.feeds import Feed
from traindx.probes.read.data.pictures import look, targets

_AGAIN = 4  # batches of a second evaluation that are looked at whatever it costs
_WINDOWS = 3  # batches of moving windows that make a series
_LOOKS = 3  # batches of each kind that are kept for a person to look at, when asked
_ASKED = 32  # samples of an evaluated batch that are looked for among those trained on
_NEW_SAMPLES = 5_000  # validation samples hashed at once, whatever it costs (about 3 ms)


class Data(Probe):
    """`batch/*` and `data.*`."""

    ordinary = ("on_forward", "on_loss", "on_settled", "on_backward", "before_step")
    wakes = ("on_forward",)

    def __init__(self) -> None:
        self.idle = False  # no batch has been looked at since the last update
        self.feeds: dict[int, Feed] = {}
        self._gone: list[Feed] = []  # of loaders that are no more, where another has their place in memory
        self.loose: dict[str, Feed] = {}  # without a loader, by phase
        self._visits: dict[int, Feed] = {}  # what the passes of a model bring, until it is known that they evaluate
        self.given = Feed()  # what a model gets that the script made of a loader's batch
        self._dropped = 0  # times it turned out that they do not
        self._between = True  # no loader is being iterated
        self.extremes = Extremes()
        self._looks, self._hashes = Allowance(), Allowance()
        self._now: Feed | None = None  # of the latest batch
        self._held: dict[str, Any] = {}  # readings of the latest batch, until a backward shows that it trains
        self._fresh = False  # a loader's batch came since the last training forward
        self._places: list[tuple[str, int, tuple[int, ...], torch.dtype]] = []
        self._target_place: dict[int, str] = {}
        self._open: tuple[Feed, batches.Hashes | None, int, Tensor | None] | None = None  # loose batch waiting for its labels
        self._untold: dict[str, Any] | None = None  # what is shown of it, still without labels
        self._answer: Tensor | None = None  # the model's output for it, until the backward
        self._held_out = False  # something else than the training set was evaluated
        self._squares = False  # the loss is a mean of squares, written by hand
        self._by_call: dict[int, Feed] = {}
        self._last: dict[int, tuple[int, int | None, int]] = {}  # feed → its latest batch: fingerprints, lean and whole; step
        self._size = 0
        self._sorted: batches.Hashes = np.empty(0, np.uint64)  # contents of loose training samples, as of a while ago
        self._channel_names: dict[int, tuple[str, ...]] = {}
        self._said: set[str] = set()
        self._slow: dict[str, Any] = {}  # facts that are dear to compute
        self._shown: dict[str, list[dict[str, Any]]] = {}  # raw samples by phase, kept only when asked

    def start(self, scene: Scene) -> None:
        scene.remembered = self.remembered

    # -- from a loader

    def on_loader(self, scene: Scene, loader: Any, phase: str) -> None:
        feed = self._feed(loader)
        feed.begin(scene.step)
        self._vote(feed, phase)
        self._between = False

    def on_loader_end(self, scene: Scene, loader: Any, complete: bool) -> None:
        self._feed(loader).end(scene.step, complete)
        self._between = True

    def on_batch(self, scene: Scene, batch: Any, phase: str) -> None:
        feed = self._now = self._feed(scene.loader)
        self._vote(feed, phase)
        self._held, self._fresh = {}, True
        self.idle = self._between = False
        if not (scene.full or _new(feed) or self._looks.granted()):
            feed.passed(one_batch.size(batch))
            return
        found = list(batches.fields(batch))
        parts = batches.parted(found, self._target_place.get(id(feed)))
        if parts is None:
            feed.passed(0)
            return
        feed.count(parts)
        if scene.full:
            self._places = [(f.place, f.tensor.data_ptr(), tuple(f.tensor.shape), f.tensor.dtype) for f in found]
        self._look(scene, feed, parts, phase)
        self._show(scene, feed, parts, phase)
        self._remember(scene, feed, parts)

    def _look(self, scene: Scene, feed: Feed, parts: Batch, phase: str) -> None:
        held: dict[str, Any] = {"size": float(parts.samples)}
        held |= self._order(scene, feed, parts)
        feed.label(parts.target)
        self.extremes.drawn = (scene.drawn, scene.loader.dataset) if isinstance(scene.loader, DataLoader) else None
        if phase != VAL:
            held |= self.extremes.range(parts, scene.step)
            held |= self.extremes.far(parts, scene.step)
        if scene.full or _new(feed):
            held |= self._numbers(feed, parts)
            held |= one_batch.of_targets(parts.target)
            feed.keep_rows(parts.main, parts.target)
            if phase != VAL:
                self.extremes.constant(parts, scene.step)
        held |= one_batch.lengths(feed, parts)
        self._held = held

    def _show(self, scene: Scene, feed: Feed, parts: Batch, phase: str) -> dict[str, Any] | None:
        """Keep a few samples as they are, when the user asked for it (`capture_batch`); gives what was kept."""
        if not scene.facts.get("data.captured"):
            return None
        kept = self._shown.setdefault(VAL if phase == VAL else TRAIN, [])
        again = phase == VAL and (len(feed.turns) > 1 or VAL in self.loose)  # a second evaluation shows the same
        if len(kept) >= _LOOKS or again:
            return None
        kept.append(look([t.cpu() for t in parts.inputs], None if parts.target is None else parts.target.cpu()))
        return kept[-1]

    def _remember(self, scene: Scene, feed: Feed, parts: Batch) -> None:
        free = scene.full or _new(feed)
        if not feed.known and (free or self._hashes.granted()):
            feed.hash(parts)

    def _order(self, scene: Scene, feed: Feed, parts: Batch) -> dict[str, float]:
        mark = batches.fingerprint(parts)
        if mark is None:
            return {}
        feed.order(mark, parts)
        out = {"batch/fingerprint": float(mark)}
        before = self._last.get(id(feed))
        if before is not None and scene.step - before[2] > 1:
            before = None  # what was served in between was not looked at
        whole = None
        if before is not None and before[0] == mark:  # pieces agree: only the whole batch can prove a repeat
            whole = batches.fingerprint(parts, whole=True)
            if before[1] is not None:
                out["batch/repeat"] = float(whole == before[1])
        elif before is not None:
            out["batch/repeat"] = 0.0
        self._last[id(feed)] = (mark, whole, scene.step)
        return out

    def _numbers(self, feed: Feed, parts: Batch) -> dict[str, Any]:
        main = parts.main
        if main is None or not main.is_floating_point():
            return {}
        got = batches.numbers(main)
        feed.describe_numbers(got, parts.samples)
        if feed.windows < _WINDOWS and len(feed.turns) <= 1:
            feed.windows += batches.moving_windows(main)
        out: dict[str, Any] = {
            "batch/input_mean": got.mean,
            "batch/input_std": got.var.sqrt(),
            "batch/input_integral": got.integral,
        }
        if got.channel_mean is not None and got.channel_var is not None:
            n = len(got.channel_mean)
            names = self._channel_names.setdefault(n, tuple(str(i) for i in range(n)))
            out["batch/channel_mean"] = Row(names, got.channel_mean)
            out["batch/channel_std"] = Row(names, got.channel_var.sqrt())
        return out

    # -- without a loader

    def on_forward(self, scene: Scene, forward: Forward) -> None:
        if forward.phase == TRAIN and self._fresh:
            self._fresh = False
            if scene.full:
                self._changed(forward)
            return
        loaded = scene.loader is not None and not (forward.phase == VAL and self._between)
        if forward.phase == OTHER or (loaded and (forward.phase == VAL or not forward.grad)):
            return
        if self._open is not None:
            self._close_loose()
        free = scene.full or (forward.phase == VAL and self._curious())
        if not (free or self._looks.granted()):
            if not loaded and forward.phase == TRAIN and TRAIN in self.loose:
                self.loose[TRAIN].passed(one_batch.size(forward.args))
            return
        parts = _given(forward)
        if parts is None:
            return
        self.idle = False
        feed = self._feed(scene.loader) if loaded else self._loose_feed(forward)
        self._vote(feed, forward.phase)
        self._loose_batch(scene, feed, parts, forward.phase, own=not loaded, free=free)
        said = forward.output
        self._answer = said if scene.full and forward.phase == TRAIN and isinstance(said, Tensor) else None

    def on_skipped(self, scene: Scene, forwards: int, samples: int) -> None:
        if scene.loader is None and TRAIN in self.loose:
            for _ in range(forwards):
                self.loose[TRAIN].passed(samples // forwards)

    def _changed(self, forward: Forward) -> None:
        """Describe inputs that the script made of the loader's: scaled, cast, moved elsewhere."""
        parts = _given(forward)
        known = {pointer for _, pointer, _, _ in self._places}
        if parts and parts.main is not None and parts.main.is_floating_point() and parts.main.data_ptr() not in known:
            self.given.describe_numbers(batches.numbers(parts.main), parts.samples)

    def _curious(self) -> bool:
        """The first evaluations are worth a little more, unless what looked like one has turned out to be none."""
        known = self.loose.get(VAL)
        return self._dropped < 3 and (known is None or (len(known.turns) <= 1 and known.store.size < _NEW_SAMPLES))

    def _loose_feed(self, forward: Forward) -> Feed:
        if forward.phase != VAL:
            return self.loose.setdefault(forward.phase, Feed())
        return self._visits.setdefault(id(forward.model), Feed())

    def on_eval_end(self, scene: Scene, evaluation: Evaluation) -> None:
        self._held_out = True
        if self._open is not None:
            self._close_loose()
        visits, self._visits = self._visits, {}
        for model, visit in visits.items():
            if model in evaluation.models and not evaluation.other:  # another set says nothing of the split
                visit.end(scene.step, True)
                self.loose.setdefault(VAL, Feed()).absorb(visit)

    def on_eval_dropped(self, scene: Scene, evaluation: Evaluation) -> None:
        if self._open is not None and self._open[0] in self._visits.values():
            self._open = None
        self._dropped += bool(self._visits)
        self._visits = {}

    def on_event(self, scene: Scene, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "retrained" and not data["same_parameters"]:  # other labels, other data: nothing of before counts
            self.feeds.clear()
            self._gone = []
            self.loose.clear()
            self._last.clear()
            self._target_place.clear()
            self._now = self._open = None
            self._visits, self._dropped = {}, 0

    def _loose_batch(self, scene: Scene, feed: Feed, parts: Batch, phase: str, *, own: bool, free: bool) -> None:
        if own:
            feed.count(parts)
        held = {"size": float(parts.samples)} | self._order(scene, feed, parts)
        if own:
            _new_pass(feed, parts.samples, scene.step)
        if phase == TRAIN:
            self.extremes.drawn = None
            held |= self.extremes.range(parts, scene.step) | self.extremes.far(parts, scene.step)
            if own:
                held |= one_batch.lengths(feed, parts)
            self._held = held | (self._numbers(feed, parts) if scene.full else {})
            self._now = feed
        elif free:
            self._numbers(feed, parts)
        if own and (free or self._hashes.granted()):
            hashes = batches.sample_hashes(parts.inputs, feed.padding)
            sketch = (
                parts.main[:256].clone() if scene.full and parts.main is not None and parts.main.device.type == "cpu" else None
            )
            self._open = (feed, hashes, parts.samples, sketch)
            self._untold = self._show(scene, feed, parts, phase)

    def _close_loose(self, target: Tensor | None = None, *, exact: bool = True) -> None:
        if self._open is None:
            return
        feed, hashes, samples, sketch = self._open
        untold, self._open, self._untold = self._untold, None, None
        fits = target is not None and target.ndim > 0 and target.shape[0] == samples
        if hashes is not None:
            feed.remember(hashes, batches.sample_hashes((target,)) if fits and exact and target is not None else None)
        if fits and target is not None:
            if untold is not None:
                untold["targets"] = targets(target.cpu())
            if exact:
                feed.mark(target)
            feed.label(target)
            if sketch is not None:
                feed.keep_rows(sketch, target[: len(sketch)])

    def remembered(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Mapping[int, bool]
    ) -> tuple[int, float] | None:
        """A name for these inputs of a model, and the share of a few of them that were trained on (NaN: the name is `known`);
        None where that cannot be told."""
        train = self.loose.get(TRAIN)
        if train is None or train.store.size < _ASKED or train.store.later:
            return None
        parts = batches.parted(list(batches.fields((*args, *kwargs.values()))), "")
        if parts is None or parts.samples < _ASKED // 4:
            return None
        every = _all_inputs(parts).inputs
        first = batches.sample_hashes(tuple(t[:1] for t in every))
        if first is None:
            return None
        if (name := int(first[0])) in known:
            return name, math.nan
        hashes = batches.sample_hashes(tuple(t[:: -(-parts.samples // _ASKED)] for t in every))
        assert hashes is not None  # as the first was
        if train.store.size > 1.1 * len(self._sorted):
            self._sorted = np.sort(train.store.table()[0])
        at = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        return name, float(np.mean(self._sorted[at] == hashes))

    # -- targets and phases

    def on_loss(self, scene: Scene, call: LossCall) -> None:
        if not (scene.full or self._open):
            return
        if self._open is None and scene.loader is not None and self._now is not None:
            if len(self._by_call) > 512:
                self._by_call.clear()
            self._by_call[call.serial] = self._now
            if scene.full and self._places and call.phase != VAL:
                self._learn_place(call)
        elif self._open is not None and (said := losses.read(call)) is not None:
            samples = self._open[2]
            self._close_loose(said.target)
            if said.target is not None and call.phase != VAL:
                self._held |= one_batch.of_targets(said.target)
                each, rest = divmod(said.target.numel(), max(samples, 1))
                if said.indices and each > 1 and not rest:  # as many targets a sample as its sequence is long
                    self._held.setdefault("batch/length", float(each))

    def _learn_place(self, call: LossCall) -> None:
        """Which part of the batch the loss was asked for: the same memory, else the only part of that shape and type."""
        said = losses.read(call)
        places, self._places = self._places, []
        if said is None or said.target is None or self._now is None:
            return
        y = said.target
        same = [p for p, at, _, _ in places if at == y.data_ptr()]
        alike = [p for p, _, sizes, kind in places if sizes == tuple(y.shape) and kind == y.dtype]
        chosen = same[:1] or (alike if len(alike) == 1 else [])
        if chosen and chosen[0] != places[0][0]:  # a loss against the input itself leaves the label where it was
            self._target_place[id(self._now)] = chosen[0]

    def on_settled(self, scene: Scene, call: LossCall, phase: str) -> None:
        feed = self._by_call.pop(call.serial, None) if self._by_call else None
        if feed is not None:
            self._vote(feed, phase)

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        if self._answer is not None:
            self._by_hand(loss)
        held, self._held = self._held, {}
        if self._now is not None and held:
            self._vote(self._now, TRAIN)
            self._size += int(held.pop("size", 0))
        return held

    def _by_hand(self, loss: Tensor) -> None:
        """A difference that was squared by hand shows its target too."""
        answer, self._answer = self._answer, None
        if self._open is None or answer is None or (said := graph.hand_written_target(loss, answer)) is None:
            return
        target, self._squares = said
        each, rest = divmod(target.numel(), max(self._open[2], 1))
        if not rest and each:
            self._close_loose(target.reshape(self._open[2], -1) if each > 1 else target, exact=False)
            self._held |= one_batch.of_targets(target)

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        self._answer = None
        self.idle = not (self._open or self._by_call)
        if not self._size or optimizer is not scene.optimizer:
            return None
        size, self._size = self._size, 0
        return {"batch/size": float(size)}

    def _vote(self, feed: Feed, phase: str) -> None:
        if phase != OTHER:
            feed.used[phase] += 1

    def _feed(self, loader: Any) -> Feed:
        known = self.feeds.get(id(loader))
        if known is None or known.loader() is not loader:
            if len(self.feeds) >= 32:
                self.feeds.pop(next(iter(self.feeds)))
            if known is not None and known.phase == TRAIN:  # gone, and its place in memory was given to this one
                self._gone = [*self._gone[-7:], known]
            known = self.feeds[id(loader)] = Feed(loader)
        return known

    # -- facts

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        every = [*self.feeds.values(), *self.loose.values()]
        train = _most(every, TRAIN)
        others = [f for f in every if f.phase == VAL and (train is None or f.dataset != train.dataset or not f.dataset)]
        val, looked = contents.held_out(train, others)
        again = _most([f for f in every if f is not train and f.used[VAL]], VAL)
        found: dict[str, Any] = {}
        if train is not None:
            found |= self._of_training(train, scene)
        alone = val is None and not self._held_out  # next to another evaluation it is a measure of training
        if alone and again is not None and train is not None and again.dataset == train.dataset and again.dataset:
            found["data.same_set"] = True
            val = again
        if stats := input_stats(self.given):
            found["data.given_stats"] = stats
        if val is not None:
            found |= of_validation(val)
        if train is not None and val is not None and (train.store.size and val.store.size):
            found["data.shared"], count = contents.shared(train, val)
            found["data.seen"] = {"train": contents.distinct(train), "val": count}
            if other := looked or contents.apart(train, val):
                found["data.shared_apart"] = other
        if len(joined := contents.joined([f for f in (*self._gone, *self.feeds.values()) if f.phase == TRAIN])):
            found["data.joined_at"] = joined
        if train is not None and train.windows >= _WINDOWS:
            found["data.series"] = True
        if self._squares:
            found["loss.by_hand"] = "mse"
        if self._shown:
            found["data.samples"] = self._shown
        if self.extremes.listed:
            found["data.bad_samples"] = self.extremes.listed
        if (usual := self.extremes.usual) is not None:
            found["data.usual_spread"] = usual
        return with_withdrawals(found, self._said)

    def _of_training(self, train: Feed, scene: Scene) -> dict[str, Any]:
        found = of_training(train)
        found["data.brought_by"] = _brought_by(train)
        if scene.ended and not self._slow:  # up to a second: only when nobody waits for it
            main = {"data.feature_auc": contents.feature_scores(train)} if train.table else {}
            self._slow = {k: v for k, v in (main | {"data.label_probe": contents.label_probe(train)}).items() if v}
        return found | self._slow


def _given(forward: Forward) -> Batch | None:
    """The inputs of a model's call as a batch; what was computed from weights is no data."""
    found = batches.fields((*forward.args, *forward.kwargs.values()))
    parts = batches.parted([f for f in found if f.tensor.grad_fn is None], "")
    return None if parts is None else _all_inputs(parts)


def _new(feed: Feed) -> bool:
    """The first look at something that has not been trained on: the first evaluation, which is worth a little more."""
    turns = len(feed.turns)  # of the second pass only its first batches: do the same samples come again as they were?
    few = turns <= 1 or (turns == 2 and feed.turn.batches < _AGAIN)
    return few and feed.phase != TRAIN and feed.store.size < turns * _NEW_SAMPLES


def _brought_by(feed: Feed) -> str:
    if not feed.about:
        return "loss call"
    return "loader" if isinstance(feed.loader(), DataLoader) or feed.about.get("sampler") else "batches()"


def _most(feeds: list[Feed], phase: str) -> Feed | None:
    """The feed that was used most in that phase."""
    fit = [f for f in feeds if f.phase == phase]
    return max(fit, key=lambda f: f.used[phase]) if fit else None


def _all_inputs(parts: Batch) -> Batch:
    """A model's arguments are inputs, all of them."""
    if parts.target is None:
        return parts
    every = (*parts.inputs, parts.target)
    return Batch(every, None, parts.mask, parts.samples, next((t for t in every if t.is_floating_point()), every[0]))


def _new_pass(feed: Feed, samples: int, step: int) -> None:
    """Without a loader a pass ends where its first batch comes again; only known when every batch was looked at."""
    turn = feed.turn
    last = turn.batches - 1
    if last < 1 or len(turn.prints) != turn.batches or turn.prints[last] != turn.prints[0]:
        return
    turn.batches, turn.samples = last, turn.samples - samples
    mark = turn.prints.pop(last)
    feed.end(step, True)
    feed.begin(step)
    feed.passed(samples)
    feed.turn.prints[0] = mark


PROBES = [Data]
