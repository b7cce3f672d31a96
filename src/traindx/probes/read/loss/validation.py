"""How evaluation is run and what it shows: accuracy, per-class figures, calibration, and whose weights were evaluated.

Validation losses are reduced batch by batch on their device and read once, when the evaluation is over. Where a script
evaluates without calling a loss, the model's outputs are compared with the labels of the batch instead. Evaluations that
come more often than the budget allows leave their loss only (`evaluations.py`).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traindx.facts import ACCURACY_NAMES
from traindx.probe import TRAIN, VAL, Evaluation, Forward, Later, LossCall, Probe, Reading, Row, Scene
from traindx.probes.read.common import batches, losses
from traindx.probes.read.common.allowance import Allowance
from traindx.probes.read.common.losses import Spoken, batch_size, plain
from traindx.probes.read.common.passes import first_tensor
from traindx.probes.read.common.sketch import Sketch, counters
from traindx.probes.read.loss import batch_sums, class_figures, validation_figures
from traindx.probes.read.loss.batch_sums import Part, Score, reduced, traits_of
from traindx.signals import REFINED

_FREE = 40  # evaluations that are all described; after that fewer and fewer
_GROWTH = 1.15  # and one is described each time there are so many more
_MOST_PROBED = 40  # evaluations
_PENDING = 300  # calls waiting for their phase; the story settles after 256
LOSS_NAMES = ("loss", "nll", "cross_entropy", "ce", "mse")
_SUMS = ("loss", "weight", "hits", "sure", "rows", "spread", "samples")


@dataclass(eq=False, slots=True)
class _Fetched:
    """A batch that came from a loader: its inputs, while the script has them; its class labels, the user's columns."""

    inputs: list[weakref.ref[Tensor]] = field(default_factory=list)
    labels: Tensor | None = None
    own: dict[str, Tensor] = field(default_factory=dict)
    used: bool = False  # the model was given it

    def holds(self, source: Tensor) -> bool:
        """Whether `source` lies where one of them does; that of a tensor which is gone may belong to another by now."""
        place = _place(source)
        return place > 0 and any((t := ref()) is not None and _place(t) == place for ref in self.inputs)


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if plain(tensor) else 0


class Evaluations(Probe):
    """`accuracy/val`, `eval/*`, `weights_moved` and the facts of the last evaluation."""

    ordinary = ()

    def __init__(self) -> None:
        self.score: Score | None = None
        self._waiting: dict[int, Part] = {}
        self._fallback: Score | None = None
        self._fetched: deque[_Fetched] = deque(maxlen=2)  # the latest batches of a loader that is not trained on
        self._labels: Tensor | None = None  # of the batch that the model was given
        self._contract: tuple[str, str, int] | None = None  # name, kind, classes of the training loss
        self._heard: dict[int, tuple[str, str, int]] = {}
        self._trained: set[int] = set()
        self._samples: int | None = None
        self._traits: dict[str, Tensor] = {}
        self._words: dict[str, dict[str, int]] = {}  # columns of words → what each is counted as
        self._own: dict[str, Tensor] = {}  # the user's columns for that batch
        self._bare: Part | None = None  # the latest batch, as long as nobody gave columns for it
        self._probed: list[tuple[int, Tensor]] = []  # step, targets and predictions of the first samples
        self._buffers: dict[int, int] | None = None  # batch counters before the evaluation
        self._buffers_now: dict[int, int] | None = None  # and after its latest forward
        self._sketch = Sketch()
        self._before: Tensor | None = None  # a few weights at the previous evaluation, and at this one
        self._now: Tensor | None = None
        self._compared = False
        self._differ: Tensor | float | None = None
        self._stands: Tensor | None = None  # the evaluated model, where it is not the trained one, is as it was
        self._copy: Tensor | None = None  # a few of its weights at the previous evaluation, and at this one
        self._copy_now: Tensor | None = None
        self._copied_at = -1  # updates that were made by then
        self._reported: dict[str, Any] = {}
        self._pairs: dict[str, list[Any]] = {}
        self._counts: deque[validation_figures.Counted] = deque(maxlen=60)  # right answers as the script counted them
        self._formulas: dict[str, str] = {}  # loss → how the script took the mean that it printed
        self._last: Score | None = None
        self._fresh = False  # it is that of the latest evaluation
        self._names: tuple[str, ...] = ()
        self._extra = Allowance(burst=2, rarest=16)
        self._looks = Allowance(burst=1, rarest=16)
        self._done = self._described = 0
        self._closely = True  # the next evaluation is described
        self._speaks = False  # the latest one called the loss itself: nothing has to be made up from its outputs

    # -- what comes before a loss

    def on_loader(self, scene: Scene, loader: Any, phase: str) -> None:
        if phase != TRAIN and self.score is None:
            self._buffers = counters(scene.models)

    def on_mode(self, scene: Scene, module: nn.Module, training: bool) -> None:
        if not training and self.score is None:
            self._buffers = counters(scene.models)

    def on_eval_begin(self, scene: Scene, evaluation: Evaluation) -> None:
        self._fresh = False

    def on_batch(self, scene: Scene, batch: Any, phase: str) -> None:
        self._labels, self._own = None, {}
        if self._fetched and self._fetched[-1].used:
            self._fetched.clear()
        if phase == TRAIN or self._contract is None or id(scene.loader) in self._trained or not self._looking(scene):
            self._fetched.clear()
            return
        this = _Fetched()
        self._fetched.append(this)
        parts = batches.parted(list(batches.fields(batch)))
        if parts is None:
            return
        this.inputs = [weakref.ref(t) for t in parts.inputs]
        if batches.class_labels(parts.target) is not None and parts.target is not None:
            this.labels = parts.target.reshape(-1).clone()
        if isinstance(batch, Mapping):  # what comes along with a batch and is no input of the model
            rest = {k: v for k, v in batch.items() if v is not parts.target and not any(v is t for t in parts.inputs)}
            this.own = self._columns(rest, parts.samples)

    def _given(self, forward: Forward) -> None:
        """Which batch the model is given: a loader may have fetched the next one before this one is used."""
        known = [b for b in self._fetched if not b.used] or list(self._fetched)[-1:]
        source = first_tensor(forward.args, forward.kwargs)
        same = [b for b in known if source is not None and b.holds(source)]
        this = same[-1] if same else known[0] if len(known) == 1 else None  # of two that fit alike neither is believed
        if this is not None:
            this.used, self._labels, self._own = True, this.labels, this.own

    def _looking(self, scene: Scene) -> bool:
        return scene.full or self._closely

    def on_forward(self, scene: Scene, forward: Forward) -> None:
        self._samples = batch_size(forward)
        if forward.phase == TRAIN:
            return
        if self._buffers is None and forward.phase == VAL:
            self._buffers = counters([forward.model])  # nobody said eval(): what the second batch changes is seen
        elif self._buffers:
            self._buffers_now = counters([forward.model])  # read here: the next training forward moves them too
        self._traits, self._bare = {}, None
        self._compare(scene, forward.model)
        if not self._looking(scene):
            return
        self._traits = traits_of(forward)
        self._given(forward)
        if not self._speaks:
            self._judge(forward)

    def _judge(self, forward: Forward) -> None:
        """Compare outputs with the labels of the batch."""
        labels, out = self._labels, forward.output
        if labels is None or self._contract is None or not plain(out) or forward.grad or self._contract[1] != "ce":
            return
        if out.ndim == 2 and out.shape == (len(labels), self._contract[2]):
            said = Spoken("cross_entropy", "ce", out, labels.to(out.device), None, -100, "mean", 0.0, 1.0, False)
            part = reduced(said, None, None, self._traits | self._own)
            if part is not None:
                self._bare = part
                self._fallback = self._fallback or Score(own_loss=False)
                self._fallback.add(part)

    def _compare(self, scene: Scene, model: nn.Module) -> None:
        """Once per evaluation: are its weights the trained ones, and have those moved? (Later the model may be gone.)"""
        if not self._compared and (models := scene.models):
            self._compared = True
            self._differ = self._sketch.differ(model, models)
            self._now = self._sketch.of(scene.params)
            self._stands = self._stood(model) if isinstance(self._differ, Tensor) and scene.step > self._copied_at else None

    def _stood(self, model: nn.Module) -> Tensor | None:
        """Whether a model that is not the trained one holds what it held at the previous evaluation; None: there was none."""
        before, now = self._copy, self._sketch.of(list(model.parameters()))
        self._copy_now = now
        if before is None or now is None or before.shape != now.shape or before.device != now.device:
            return None
        return torch.eq(before, now).all().float()

    # -- losses

    def on_loss(self, scene: Scene, call: LossCall) -> None:
        trains = call.phase == TRAIN and (self._contract is None or scene.loader is None or id(scene.loader) in self._trained)
        if trains and not scene.first:
            return
        said = losses.read(call)
        if said is None:
            return
        if trains:
            self._heard[call.serial] = (call.name, said.kind, said.classes or 0)
            return
        if not self._looking(scene):
            return
        part = reduced(said, call.output, self._samples, self._traits | self._own)
        if part is not None:
            self._bare = part
            if len(self._waiting) >= _PENDING:
                self._waiting.pop(next(iter(self._waiting)))
            self._waiting[call.serial] = part

    def on_columns(self, scene: Scene, columns: Mapping[str, Any]) -> None:
        if scene.phase == TRAIN:
            return
        part, self._bare = self._bare, None
        if part is not None and part.each is not None:
            part.traits |= self._columns(columns, len(part.each))
        else:
            self._own |= self._columns(columns, self._samples or 0)

    def _columns(self, columns: Mapping[str, Any], n: int) -> dict[str, Tensor]:
        """One number per sample for every column that has one value for each: words by their order of appearance."""
        found: dict[str, Tensor] = {}
        for name, values in columns.items():
            name = str(name)
            if isinstance(values, Tensor | np.ndarray) and values.ndim == 1 and len(values) == n:
                column = torch.as_tensor(values)
                found[name] = column.detach().float() if not column.is_complex() else torch.empty(0)
            elif isinstance(values, list | tuple) and len(values) == n:
                if all(isinstance(v, int | float) for v in values):
                    found[name] = torch.tensor(values, dtype=torch.float32)
                elif all(isinstance(v, str) for v in values):
                    known = self._words.setdefault(name, {})
                    if len(known) <= validation_figures.MOST_WORDS:
                        found[name] = torch.tensor([float(known.setdefault(v, len(known))) for v in values])
        return found

    def on_settled(self, scene: Scene, call: LossCall, phase: str) -> None:
        part = self._waiting.pop(call.serial, None)
        heard = self._heard.pop(call.serial, None)
        if phase == TRAIN and heard is not None:
            self._contract = heard
        if phase == VAL and part is not None and (self._contract is None or call.name == self._contract[0]):
            self.score = self.score or Score()
            self.score.add(part)

    def on_backward(self, scene: Scene, loss: Tensor) -> None:
        if scene.loader is not None:
            self._trained.add(id(scene.loader))

    # -- the evaluation is over

    def on_eval_end(self, scene: Scene, evaluation: Evaluation) -> Reading:
        out: dict[str, Any] = {}
        if self._buffers and self._buffers_now:
            now = self._buffers_now
            out["eval/buffers_changed"] = float(any(now.get(k, v) != v for k, v in self._buffers.items()))
        self._buffers_now = None
        if self._differ is not None:
            out["eval/weights_differ"] = self._differ
        if self._stands is not None and len(evaluation.models) == 1:
            out["eval/weights_stand"] = self._stands
        if self._copy_now is not None:
            self._copy, self._copy_now, self._copied_at = self._copy_now, None, scene.step
        self._differ, self._stands, self._compared = None, None, False
        out |= self._moved(scene)
        if evaluation.printed is not None:
            self._reported.setdefault("loss", evaluation.printed)
            self._formulas["loss"] = evaluation.formula
        if evaluation.claimed is not None:
            out["eval/claimed_accuracy"] = evaluation.claimed[0]
        if evaluation.other:  # figures of another set are not those of validation
            self.score = self._fallback = self._buffers = self._bare = None
            self._reported = {}
            return out
        if evaluation.mixed:
            self.score = self._fallback = None
        score = self.score if self.score is not None and self.score.parts else self._fallback
        if evaluation.hits is not None and score is not None and "accuracy" not in self._reported:
            right, count = evaluation.hits
            self._pairs["accuracy"] = [right / count, score, count]
        if evaluation.answers is not None and (score is None or "rows" not in score.sums):
            told = batch_sums.answered(*evaluation.answers)
            score = told if told is not None else score
        if score is not None and "rows" in score.sums:
            said = validation_figures.Told(self._done, evaluation.hits, evaluation.mean_hits, evaluation.claimed)
            self._counts.append(validation_figures.Counted(said, score.sums))
        if score is not None:
            self._speaks = score is self.score
        self.score = self._fallback = self._buffers = None
        self._fresh = score is not None and score.parts > 0
        if score is not None and self._fresh:
            out |= self._scored(score, evaluation.part)
            if scene.facts.get("data.captured") and score.first is not None and len(self._probed) < _MOST_PROBED:
                self._probed.append((evaluation.step, score.first))
        else:
            self._reported = {}  # nothing of ours to compare it with
        self._bare = None
        self._done += 1
        if self._looking(scene):
            self._described = self._done
        free = self._done < _FREE or self._done >= _GROWTH * self._described
        self._closely = free or self._looks.granted()
        return out

    def on_eval_dropped(self, scene: Scene, evaluation: Evaluation) -> None:
        self.score = self._fallback = self._buffers = self._buffers_now = self._differ = self._stands = self._now = (
            self._copy_now
        ) = None
        self._compared = False
        self._reported = {}

    def on_event(self, scene: Scene, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "retrained" and not data["same_parameters"]:
            self._contract = self._before = self._last = None
            self._trained.clear()
            self._counts.clear()
            self._pairs, self._formulas = {}, {}

    def _moved(self, scene: Scene) -> dict[str, Any]:
        now = self._now if self._now is not None else self._sketch.of(scene.params)
        before, self._before, self._now = self._before, now, None
        if before is None or now is None or before.shape != now.shape or before.device != now.device:
            return {}
        return {"weights_moved": torch.ne(before, now).any().float()}

    def _scored(self, score: Score, part: bool) -> dict[str, Any]:
        self._last = score
        self._pair(score)
        names = [n for n in _SUMS if n in score.sums]
        tensors = [torch.stack([score.sums[n] for n in names])]
        if score.confusion is not None:
            tensors.append(score.confusion)
        close = self._done < 2 or self._extra.granted()
        table = validation_figures.table(score) if close and score.logits else None
        if table is not None:
            tensors += list(table)
        confused = score.confusion is not None

        def result(*numbers: list[float]) -> Mapping[str, Any]:
            got = self._figures(score, dict(zip(names, numbers[0], strict=True)), numbers[1] if confused else None)
            if table is not None:
                got |= validation_figures.calibrated(numbers[-2], numbers[-1], got.get("loss/val"))
            return {k: v for k, v in got.items() if not (part and k in REFINED)}

        return {"scored": Later(tuple(tensors), result)}

    def _figures(self, score: Score, got: Mapping[str, float], confusion: list[float] | None) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if got.get("rows"):
            out["accuracy/val"] = got["hits"] / got["rows"]
            if "sure" in got:
                out["confidence/val"] = got["sure"] / got["rows"]
        if got.get("weight"):
            out["loss/val"] = got["loss"] / got["weight"]
        if got.get("spread", 0) > 0 and got.get("samples", 0) > 1:
            out["eval/loss_se"] = (got["spread"] / got["samples"] ** 2) ** 0.5
        if confusion is not None:
            side = round(len(confusion) ** 0.5)
            names = score.names or tuple(str(i) for i in range(side))
            if self._names != names:
                self._names = names
            each = class_figures.per_class(np.array(confusion).reshape(side, side))
            out |= {f"eval/{k}/class": Row(self._names, v) for k, v in each.items()}
        return out

    # -- what the user says about it

    def on_metric(self, scene: Scene, name: str, value: Any, phase: str) -> None:
        kind = metric_kind(name)
        if kind is None or phase != VAL:
            return
        kept = value.detach().clone() if isinstance(value, Tensor) and value.numel() == 1 else value
        if self.score is not None or self._fallback is not None:
            self._reported[kind] = kept
        elif self._last is not None and self._fresh:
            self._pairs[kind] = [kept, self._last]

    def _pair(self, score: Score) -> None:
        for kind, value in self._reported.items():
            self._pairs[kind] = [value, score]
        self._reported = {}

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        pairs = {k: p for k, v in self._pairs.items() if (p := validation_figures.both(k, *v)) is not None}
        formulas = {k: v for k, v in self._formulas.items() if v}
        if (odd := validation_figures.counted_oddly(self._counts)) is not None:
            formulas["accuracy"], pairs["accuracy"] = odd
        if pairs:
            found["eval.metric_recomputed"] = pairs
        if formulas:
            found["eval.metric_formula"] = formulas
        score = self._last
        if score is None:
            return found
        if score.confusion is not None:
            found["eval.confusion"] = [[int(v) for v in row] for row in score.confusion.tolist()]
        table = validation_figures.table(score) if scene.ended else None
        if table is not None and len(table[0]) >= 50:
            logits, targets = table[0].double().cpu().numpy(), table[1].long().cpu().numpy()
            rated = (targets >= 0) & np.isfinite(logits).all(axis=1)
            logits, targets = logits[rated], targets[rated]
            if len(targets):
                found["eval.ece"] = class_figures.ece(logits, targets)
                if logits.shape[1] <= 20:
                    found["eval.auroc"] = class_figures.auroc(logits, targets)
                    found["eval.ap"] = class_figures.average_precision(logits, targets)
        if score.each and scene.ended:
            found["eval.slices"] = validation_figures.sliced(score, self._words)
        if score.worst is not None and scene.ended:
            found["eval.worst"] = validation_figures.worst(score.worst)
        if self._probed:
            found["eval.probes"] = validation_figures.probes(self._probed)
        return found


def metric_kind(name: str) -> str | None:
    """accuracy or loss, when a metric's name says so without a doubt: `val_acc`, `valid/loss`, `eval_accuracy`."""
    bare = name.lower().replace("/", "_").replace(".", "_").replace("-", "_")
    for prefix in ("validation_", "valid_", "val_", "eval_", "test_"):
        bare = bare.removeprefix(prefix)
    if bare in ACCURACY_NAMES:
        return "accuracy"
    return "loss" if bare in LOSS_NAMES else None


PROBES = [Evaluations]
