"""What one source of batches has fed so far: contents by hash, labels, order, and how its numbers lie.

A feed is a loader, or the model's own inputs where there is no loader. Whether it trains or validates is known from what
its batches were used for; everything is kept per feed until then.
"""

from __future__ import annotations

import dis
import random
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from traindx import innards
from traindx.probe import OTHER, TRAIN, VAL
from traindx.probes.read.common.batches import (
    Batch,
    Hashes,
    Numbers,
    class_labels,
    device_hashes,
    host,
    label_print,
    sample_hashes,
)
from traindx.probes.read.common.tally import Tally

MOST_HASHES = 200_000  # samples remembered by content: 3.4 MB
MOST_BATCHES = 512  # batches whose order and labels are remembered of a pass
MOST_ROWS = 1_000  # samples kept as short rows for the one-feature and label probes
MOST_FEATURES = 64
_PASSES = 3  # passes whose order is remembered
_MOST_TURNS = 16

Rows = NDArray[np.float32]


@dataclass
class Store:
    """Hashes of samples with those of their labels, and the pass they came in."""

    contents: list[Hashes] = field(default_factory=list)
    labels: list[Hashes] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    later: list[tuple[Tensor, Tensor | None, int]] = field(default_factory=list)  # still on an accelerator
    size: int = 0

    def add(self, contents: Hashes, labels: Hashes | None, turn: int) -> None:
        self.contents.append(contents)
        self.labels.append(labels if labels is not None else np.zeros(len(contents), np.uint64))
        self.passes.append(turn)
        self.size += len(contents)

    def absorb(self, other: Store, turn: int) -> None:
        """Take over what another store has, as pass number `turn`."""
        self.contents += other.contents
        self.labels += other.labels
        self.passes += [turn] * len(other.passes)
        self.later += [(contents, labels, turn) for contents, labels, _ in other.later]
        self.size += other.size

    def table(self) -> tuple[Hashes, Hashes, NDArray[np.int64]]:
        """(content, label, pass) of every sample; fetches what is still on an accelerator."""
        for contents, labels, turn in self.later:
            self.add(
                contents.cpu().numpy().view(np.uint64),
                labels.cpu().numpy().view(np.uint64) if labels is not None else None,
                turn,
            )
            self.size -= len(contents)
        self.later = []
        if not self.contents:
            return np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)
        turns = np.repeat(self.passes, [len(c) for c in self.contents]).astype(np.int64)
        return np.concatenate(self.contents), np.concatenate(self.labels), turns


@dataclass
class Turn:
    """One pass over a feed (an epoch, or an evaluation): its batches in order."""

    prints: dict[int, int] = field(default_factory=dict)  # place in the pass → fingerprint, of the batches looked at
    labels: dict[int, int] = field(default_factory=dict)  # place → hash of the targets
    samples: int = 0
    batches: int = 0
    complete: bool = False
    first_step: int = 0
    steps: int | None = None
    mean: float = 0.0  # Σ over batches of what a curriculum would move (length, else mean input)
    seen: int = 0  # batches behind that sum


class Feed:
    """Everything remembered of one source of batches."""

    def __init__(self, loader: Any = None) -> None:
        self.loader = _reference(loader)
        self.dataset = id(getattr(loader, "dataset", loader)) if loader is not None else 0
        self.about: dict[str, Any] = describe(loader) if loader is not None else {}
        self.used: Counter[str] = Counter()
        self.turns: list[Turn] = []
        self.passes = 0
        self.fetched = 0
        self.store = Store()
        self.stats = Tally(lows=["low"], highs=["high"], sums=["n", "mean", "square", "var"])
        self.channels: dict[int, list[Tensor]] = {}  # number of channels -> [n, Σmean, Σmean², Σvar]
        self.classes: Counter[int] = Counter()
        self.batch_classes: list[Counter[int]] = []
        self.rows: list[Rows] = []
        self.row_labels: list[NDArray[Any]] = []
        self.kept_rows = 0
        self.worker_twins = 0
        self.pad: int | None = None  # the padding id of token sequences, where it is certain
        self.pad_asked = 0
        self.tokens = False  # inputs are sequences of ids: the same context may well be followed by another word
        self.top_id = 0  # the largest of these ids
        self.table = False  # inputs are rows of at most 64 numbers
        self.windows = 0  # batches whose samples are windows of one series, each moved on from the one before
        self.float_labels = False
        self.projected = False  # the row labels are one number made of many
        self.single_labels = False  # one label a sample, or one number: not sequences of tokens

    @property
    def phase(self) -> str:
        """What it is used for: training if ever trained on."""
        if self.used[TRAIN]:
            return TRAIN
        return VAL if self.used[VAL] else OTHER

    @property
    def turn(self) -> Turn:
        if not self.turns:
            self.begin(0)
        return self.turns[-1]

    def begin(self, step: int) -> None:
        """A pass begins; an unused one (an iterator made and thrown away) is taken over."""
        self.passes += 1
        if self.turns and not self.turns[-1].batches:
            self.turns[-1].first_step = step
            return
        self.turns.append(Turn(first_step=step))
        if len(self.turns) > _MOST_TURNS:
            del self.turns[_PASSES]  # the first passes and the latest say all that is asked

    def end(self, step: int, complete: bool) -> None:
        turn = self.turn
        turn.complete = complete
        turn.steps = step - turn.first_step

    def absorb(self, other: Feed) -> None:
        """Take over what another feed has seen, as one more pass."""
        self.used.update(other.used)
        self.passes += 1
        self.fetched += other.fetched
        self.turns += other.turns[:1]
        if len(self.turns) > _MOST_TURNS:
            del self.turns[_PASSES]
        if self.store.size < MOST_HASHES:
            self.store.absorb(other.store, min(self.passes, 255))
        self.stats.absorb(other.stats)
        for n, rows in other.channels.items():
            self._add_channels(n, rows)
        self.classes.update(other.classes)
        self.batch_classes += other.batch_classes if self.passes == 1 else []
        if self.kept_rows < MOST_ROWS and self.passes == 1:
            self.rows, self.row_labels, self.kept_rows = other.rows, other.row_labels, other.kept_rows
        self.tokens, self.table, self.single_labels = other.tokens, other.table, other.single_labels
        self.top_id, self.windows = max(self.top_id, other.top_id), self.windows + other.windows
        self.float_labels = self.float_labels or other.float_labels
        self.projected = self.projected or other.projected

    def count(self, batch: Batch) -> None:
        self.passed(batch.samples)
        main = batch.main
        self.tokens = main is not None and main.ndim == 2 and not main.is_floating_point()
        self.table = main is not None and main.ndim == 2 and main.is_floating_point() and main.shape[1] <= MOST_FEATURES

    def passed(self, samples: int) -> None:
        """A batch that is only counted."""
        self.turn.batches += 1
        self.turn.samples += samples
        self.fetched += 1

    @property
    def asks_class(self) -> bool:
        """One label for each input that names it: for sequences of ids a few classes, not the word that comes next."""
        few = 2 <= len(self.classes) <= 20 and 3 * (max(self.classes) + 1) <= self.top_id
        return self.single_labels and (not self.tokens or few)

    @property
    def bounded(self) -> bool:
        """Its first pass is known as such: a loader over a data set with a length, or a pass that was seen to end."""
        return self.about.get("samples") is not None or bool(self.turns and self.turns[0].complete)

    @property
    def known(self) -> bool:
        """Two passes' worth of samples were hashed: more would only repeat them."""
        return len(self.turns) > 2 and self.store.size >= 2 * (self.about.get("samples") or MOST_HASHES)

    @property
    def padding(self) -> int | None:
        """The id that token sequences are padded with; 0 where nothing is known."""
        return (self.pad or 0) if self.tokens else None

    def remember(self, contents: Hashes, labels: Hashes | None) -> None:
        """Samples that were hashed before their labels were known."""
        if self.store.size < MOST_HASHES:
            self.store.add(contents, labels, min(len(self.turns), 255))

    def order(self, print_: int, batch: Batch) -> None:
        """Remember where this batch stands in its pass."""
        turn = self.turn
        if len(self.turns) > _PASSES or len(turn.prints) >= MOST_BATCHES:
            return
        place = turn.batches - 1
        workers = int(self.about.get("num_workers") or 0)
        if any(turn.prints.get(place - i) == print_ for i in range(1, workers)):
            self.worker_twins += batch.samples  # batches of one round come from different workers
        turn.prints[place] = print_
        if batch.target is not None and (mark := label_print(batch.target)) is not None:
            turn.labels[place] = mark

    def mark(self, target: Tensor) -> None:
        """The targets of the batch last remembered, where its loss call showed them: one for each sample."""
        turn, place = self.turn, self.turn.batches - 1
        if place in turn.prints and target.numel() == target.shape[0] and (mark := label_print(target)) is not None:
            turn.labels[place] = mark

    def hash(self, batch: Batch) -> None:
        """Remember the contents of the samples."""
        if self.store.size >= MOST_HASHES or not batch.inputs:
            return
        turn = min(len(self.turns), 255)
        contents = sample_hashes(batch.inputs, self.padding)
        if contents is None:
            own = device_hashes(batch.inputs[0])
            target = batch.target
            marks = device_hashes(target) if target is not None and target.device == batch.inputs[0].device else None
            if own is not None:
                self.store.later.append((own, marks, turn))
                self.store.size += batch.samples
        else:
            labels = sample_hashes((batch.target,)) if batch.target is not None and batch.target.device.type == "cpu" else None
            self.store.add(contents, labels, turn)

    def label(self, target: Tensor | None) -> NDArray[np.int64] | None:
        """Count the classes of a batch; gives the labels when they are class ids."""
        self.single_labels = target is not None and (target.numel() == target.shape[0] or target.is_floating_point())
        labels = class_labels(target)
        if labels is None:
            self.float_labels = self.float_labels or (target is not None and target.is_floating_point())
            return None
        found = Counter(labels.tolist()) if len(labels) < 4096 else Counter(dict(zip(*np.unique(labels, return_counts=True))))
        self.classes.update(found)
        if len(self.batch_classes) < MOST_BATCHES and len(self.turns) <= 1:
            self.batch_classes.append(found)
        return labels

    def describe_numbers(self, numbers: Numbers, samples: int) -> None:
        """Add a batch to the statistics; one with values that are not finite has no weight in them."""
        n = torch.isfinite(numbers.mean + numbers.var).double() * samples
        mean, var = torch.nan_to_num(numbers.mean.double(), 0, 0, 0), torch.nan_to_num(numbers.var.double(), 0, 0, 0)
        row = {"n": n, "mean": mean * n, "square": mean**2 * n, "var": var * n}
        limits = {"low": torch.nan_to_num(numbers.low, torch.inf), "high": torch.nan_to_num(numbers.high, -torch.inf)}
        self.stats.add(limits | row)
        if numbers.channel_mean is not None and numbers.channel_var is not None:
            self._channel(numbers.channel_mean.double(), numbers.channel_var.double(), samples)

    def _channel(self, mean: Tensor, var: Tensor, samples: int) -> None:
        n = torch.isfinite(mean + var).double() * samples
        mean, var = torch.nan_to_num(mean, 0, 0, 0), torch.nan_to_num(var, 0, 0, 0)
        self._add_channels(len(mean), [n, mean * n, mean**2 * n, var * n])

    def _add_channels(self, count: int, rows: list[Tensor]) -> None:
        known = self.channels.get(count)
        if known is None or known[0].device != rows[0].device:
            if len(self.channels) < 4:
                self.channels[count] = rows
            return
        # a new sum, not in place: rows of an evaluation under inference_mode may not be changed outside it
        self.channels[count] = list(innards.foreach_add(known, rows))

    def keep_rows(self, main: Tensor | None, target: Tensor | None) -> None:
        """A few samples as short rows with their label: what the one-feature and label probes work on."""
        if self.kept_rows >= MOST_ROWS or main is None or target is None:
            return
        if not main.is_floating_point():
            if main.ndim != 2 or main.dtype == torch.bool or main.device.type != "cpu":
                return
            main = _bags(main)
        x, y = host(main.float() if main.dtype != torch.float32 else main), host(target)
        if x is None or y is None or len(self.turns) > 1:
            return
        if y.size != len(y):
            if not target.is_floating_point() or y.ndim < 2 or len(y) != len(x):
                return
            y, self.projected = _projected(y), True
        flat = x.reshape(len(x), -1)
        flat = flat[:, :: -(-flat.shape[1] // MOST_FEATURES)][: MOST_ROWS - self.kept_rows]
        if self.rows and self.rows[0].shape[1] != flat.shape[1]:
            return
        self.rows.append(flat.astype(np.float32))
        self.row_labels.append(y.reshape(-1)[: len(flat)].copy())
        self.kept_rows += len(flat)


def _bags(ids: Tensor) -> Tensor:
    """Token ids as counts in a few columns, each id in one of them by a fixed draw."""
    column = (ids.detach().long() * 2_654_435_761 >> 8) % MOST_FEATURES
    return torch.zeros(len(ids), MOST_FEATURES).scatter_add_(1, column, (ids != 0).float())


def _projected(target: NDArray[Any]) -> NDArray[Any]:
    """One number for a target of many: a fixed sum with random signs. Noise to be predicted has no better summary."""
    flat = target.reshape(len(target), -1)
    flat = flat[:, :: -(-flat.shape[1] // MOST_FEATURES)]
    return flat @ np.random.default_rng(0).choice((-1.0, 1.0), flat.shape[1])


def describe(loader: Any) -> dict[str, Any]:
    """A loader in words: `shuffle` is None when its sampler does not tell; `length` counts batches, `samples` the data set."""
    sampler = getattr(loader, "sampler", None)
    inner = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    chosen = sampler if inner is None or type(sampler).__name__ != "SequentialSampler" else inner
    dataset = getattr(loader, "dataset", None)
    batch_size = getattr(loader, "batch_size", None)
    return {
        "batch_size": batch_size
        if batch_size is not None
        else getattr(getattr(loader, "batch_sampler", None), "batch_size", None),
        "shuffle": _shuffles(chosen, loader),
        "sampler": type(chosen).__name__ if chosen is not None else None,
        "replacement": bool(getattr(chosen, "replacement", False)),
        "num_workers": getattr(loader, "num_workers", None),
        "drop_last": getattr(loader, "drop_last", None),
        "dataset": type(dataset).__name__ if dataset is not None else None,
        "length": _length(loader),
        "samples": _length(dataset),
    }


def _shuffles(sampler: Any, loader: Any) -> bool | None:
    name = type(sampler).__name__
    if "Infinite" in name or type(getattr(loader, "batch_sampler", None)).__name__ not in ("BatchSampler", "NoneType"):
        return None  # an iterable data set, or batches put together by the user
    if "Random" in name:
        return True
    if name == "SequentialSampler":
        return False
    shuffle = getattr(sampler, "shuffle", None)
    return bool(shuffle) if isinstance(shuffle, bool | int) else None


_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)


def randomness(loader: Any) -> bool:
    """Whether the data set draws random numbers for every sample from a generator that it holds itself.

    Such a generator is copied to every worker and, without persistent workers, anew in every epoch. It only counts when
    `__getitem__` names it; one that was used to build the data set says nothing.
    """
    dataset = _innermost(loader)
    getter = getattr(type(dataset), "__getitem__", None)
    named = set(getattr(getattr(getter, "__code__", None), "co_names", ()))
    if "get_worker_info" in named:  # it looks after its workers itself
        return False
    return any(isinstance(v, _GENERATORS) and k in named for k, v in getattr(dataset, "__dict__", {}).items())


def _innermost(loader: Any) -> Any:
    """The data set itself, without Subset and its like around it."""
    dataset = getattr(loader, "dataset", None)
    for _ in range(4):
        inner = getattr(dataset, "dataset", None)
        if inner is None:
            break
        dataset = inner
    return dataset


_SEEDERS = frozenset({"default_rng", "RandomState", "Random", "seed", "manual_seed"})


def fixed_seed(loader: Any) -> int | None:
    """The constant that `__getitem__` seeds a generator with for every sample, read off its code; None where it does not."""
    code = getattr(getattr(type(_innermost(loader)), "__getitem__", None), "__code__", None)
    if code is None or not _SEEDERS & set(code.co_names):
        return None
    waiting = False  # a seeder was named: is its argument a constant?
    for step in dis.get_instructions(code):
        if step.argval in _SEEDERS:
            waiting = True
        elif waiting and step.opname.startswith("LOAD"):
            if type(step.argval) is int:
                return int(step.argval)
            waiting = False
        elif step.opname.startswith("CALL"):
            waiting = False
    return None


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except Exception:  # whatever a user's __len__ raises, it has no length for us
        return None


def _reference(thing: Any) -> Any:
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: None
