"""How evaluation is run and what it shows: accuracy, per-class figures, calibration, and whose weights were evaluated.

Validation losses are reduced batch by batch on their device and read once, when the evaluation is over. Where a script
evaluates without calling a loss, the model's outputs are compared with the labels of the batch instead. Evaluations that
come more often than the budget allows leave their loss only (`evaluations.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traindx.facts import ACCURACY_NAMES
from traindx.probe import TRAIN, VAL, Evaluation, Forward, Later, LossCall, Probe, Reading, Row, Scene
from traindx.probes import batches, losses, scoring
from traindx.probes.allowance import Allowance, clock
from traindx.probes.contract import MOST_CLASSES, batch_size
from traindx.probes.losses import Spoken, plain
from traindx.probes.sketch import Sketch, counters
from traindx.probes.tokens import TokenBatch, pad_id

_FREE_S = 1.0  # of our own time that evaluations have free; then they have a share of the time, as training steps have
_GROWTH = 1.15  # and one is described each time there are so many more
_KEPT_ROWS, _KEPT_ELEMENTS = 2_000, 40_000  # logits kept of an evaluation for calibration
_KEPT_SAMPLES = 4_000  # per-sample losses kept for slices
_WORST = 10  # samples with the largest loss
_FIRST = 8  # samples whose answers are kept per evaluation, when raw samples may be kept
_MOST_PROBED = 40  # evaluations
_MOST_WORDS = 50  # different values of a column that are slices of their own
_PENDING = 300  # calls waiting for their phase; the story settles after 256
LOSS_NAMES = ("loss", "nll", "cross_entropy", "ce", "mse")
_MEASURED = ("length", "brightness", "contrast")  # properties that we take ourselves
_SUMS = ("loss", "weight", "hits", "sure", "rows", "spread", "samples")


@dataclass
class Part:
    """One validation batch, reduced."""

    sums: dict[str, Tensor]
    confusion: Tensor | None = None
    logits: Tensor | None = None
    targets: Tensor | None = None
    each: Tensor | None = None  # (samples,) losses
    traits: dict[str, Tensor] = field(default_factory=dict)  # (samples,) properties
    size: int = 0  # samples
    first: Tensor | None = None  # (2, few): targets and predictions of its first samples
    worst: Tensor | None = None  # (4, few): loss, place in the batch, target and prediction of its worst samples


@dataclass
class Score:
    """One evaluation in the making."""

    sums: dict[str, Tensor] = field(default_factory=dict)
    confusion: Tensor | None = None
    logits: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)
    each: list[Tensor] = field(default_factory=list)
    traits: list[dict[str, Tensor]] = field(default_factory=list)
    first: Tensor | None = None
    worst: Tensor | None = None
    seen: int = 0  # samples before the batch at hand
    kept: int = 0
    parts: int = 0
    own_loss: bool = True  # the losses are the script's own, not recomputed from outputs

    def add(self, part: Part) -> None:
        self.first = part.first if not self.parts else self.first
        self.parts += 1
        for name, value in part.sums.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value
        if part.confusion is not None:
            same = self.confusion is not None and self.confusion.shape == part.confusion.shape
            self.confusion = self.confusion + part.confusion if same and self.confusion is not None else part.confusion
        if part.logits is not None and part.targets is not None and self.kept < self._room(part.logits.shape[1]):
            self.logits.append(part.logits)
            self.targets.append(part.targets)
            self.kept += len(part.logits)
        if part.each is not None and sum(len(e) for e in self.each) < _KEPT_SAMPLES:
            self.each.append(part.each)
            self.traits.append(part.traits)
        self._rank(part)

    def _rank(self, part: Part) -> None:
        """Go on with the worst samples of the evaluation so far."""
        if part.worst is not None:
            part.worst[1] += self.seen
            every = part.worst if self.worst is None else torch.cat([self.worst, part.worst.to(self.worst.device)], 1)
            self.worst = every[:, every[0].topk(min(_WORST, every.shape[1])).indices]
        self.seen += part.size

    @staticmethod
    def _room(classes: int) -> int:
        return min(_KEPT_ROWS, _KEPT_ELEMENTS // max(1, classes))


def reduced(said: Spoken, output: Any, samples: int | None, traits: Mapping[str, Tensor]) -> Part | None:
    """A validation call as sums; None when there is nothing to sum."""
    if (table := losses.rows(said, samples)) is not None:
        return _classified(said, table, output, traits)
    if said.target is None or not plain(output):
        return None
    n = said.input.shape[0] if said.input.ndim else 1
    part = Part({"samples": torch.full((), float(n), dtype=torch.float64, device=said.input.device)})
    part.size = n
    _own_loss(part, said, output, part.sums["samples"])
    if said.kind in losses.BINARY and said.input.shape == said.target.shape:
        got = losses.binary(said)
        count = part.sums["samples"] * (said.input.numel() // n)
        part.sums |= {"hits": got["accuracy"].double() * count, "sure": got["confidence"].double() * count, "rows": count}
        if said.input.numel() == n:
            part.logits, part.targets = _two_columns(said)
            part.confusion = _confusion(
                part.targets, (part.logits[:, 1] > 0).long(), torch.ones(n, device=said.input.device), 2
            )
    if (own := losses.elementwise(said)) is not None and len(own) > 1:
        each = own.mean(1)
        part.sums["spread"] = each.var().double() * len(each)
        part.each, part.traits = each, _fitting(traits, len(each))
        if part.logits is not None and part.targets is not None:
            part.worst = _worst(each, part.targets, (part.logits[:, 1] > 0).long())
            part.first = _first(part.targets, (part.logits[:, 1] > 0).long())
        else:
            alone = said.input.numel() == n == said.target.numel()
            part.worst = _worst(each, said.target, said.input) if alone else _worst(each)
            part.first = _first(said.target, said.input) if alone else None
    return part


def _worst(each: Tensor, targets: Tensor | None = None, guesses: Tensor | None = None) -> Tensor:
    """The samples of a batch with the largest loss; what is not one number per sample is left out."""
    at = each.topk(min(_WORST, len(each))).indices
    nothing = torch.full((len(at),), torch.nan, dtype=torch.float64, device=each.device)
    said = [nothing if t is None else t.detach().reshape(-1)[at].double() for t in (targets, guesses)]
    return torch.stack([each.detach()[at].double(), at.double(), *said])


def _first(targets: Tensor, guesses: Tensor) -> Tensor:
    return torch.stack([t.detach().reshape(-1)[:_FIRST].double() for t in (targets, guesses)])


def _two_columns(said: Spoken) -> tuple[Tensor, Tensor]:
    x = said.input.reshape(-1).float()
    if said.kind == "bce":
        x = torch.logit(x, eps=1e-7)
    assert said.target is not None
    return torch.stack([torch.zeros_like(x), x], 1), (said.target.reshape(-1) > 0.5).long()


def _classified(said: Spoken, table: losses.Rows, output: Any, traits: Mapping[str, Tensor]) -> Part:
    got = losses.classification(said, table)
    valid = (table.targets != said.ignore_index).float()
    count = int(table.logits.shape[1])
    assert said.target is not None
    asked = torch.ne(said.target, said.ignore_index).sum().double()
    thinned = asked / valid.sum().clamp(min=1).double()  # rows stand for this many targets
    part = Part(
        {
            "hits": got["hits"].sum().double() * thinned,
            "sure": got["confidence"].double() * asked,
            "rows": asked,
            "samples": torch.full_like(asked, float(table.groups)),
            "spread": torch.nan_to_num(got["sample_var"]).double() * table.groups,
        }
    )
    _own_loss(part, said, output if plain(output) else (got["losses"] * valid).sum() / valid.sum().clamp(min=1), asked)
    if count <= MOST_CLASSES:
        part.confusion = _confusion(table.targets, got["guess"], valid, count)
        if table.each == table.length == 1:
            keep = slice(None, None, max(1, -(-len(table.targets) // 256)))
            part.logits, part.targets = table.logits[keep].clone(), torch.where(valid > 0, table.targets, -1)[keep].clone()
    if table.each == table.length:
        weight = got["weights"].view(table.groups, -1)
        part.each = (got["losses"].view(table.groups, -1) * weight).sum(1) / weight.sum(1).clamp(min=1e-12)
        part.traits = _fitting(traits, table.groups)
        part.worst = _worst(part.each, table.targets, got["guess"]) if table.length == 1 else _worst(part.each)
        part.first = _first(table.targets, got["guess"]) if table.length == table.every == 1 else None
        part.worst[1] *= table.every
    part.size = table.groups * table.every
    return part


def _own_loss(part: Part, said: Spoken, output: Tensor, weight: Tensor) -> None:
    if output.numel() == 1 and said.reduction == "mean":
        part.sums |= {"loss": output.detach().reshape(()).double() * weight, "weight": weight}
    elif output.numel() == 1 and said.reduction == "sum":
        part.sums |= {"loss": output.detach().reshape(()).double(), "weight": weight}
    else:
        part.sums |= {"loss": output.detach().double().mean() * weight, "weight": weight}


def _confusion(targets: Tensor, guesses: Tensor, valid: Tensor, count: int) -> Tensor:
    place = targets.clamp(0, count - 1) * count + guesses
    return (
        torch.zeros(count * count, dtype=torch.float32, device=targets.device)
        .index_add_(0, place, valid.float())
        .view(count, count)
    )


def _fitting(traits: Mapping[str, Tensor], n: int) -> dict[str, Tensor]:
    return {k: v for k, v in traits.items() if len(v) == n}


def traits_of(forward: Forward) -> dict[str, Tensor]:
    """What may split the samples of a batch: brightness and contrast of images, length of sequences."""
    mask = forward.kwargs.get("attention_mask")
    if plain(mask) and mask.ndim == 2:
        return {"length": mask.float().sum(1)}
    for value in (*forward.args, *forward.kwargs.values()):
        if plain(value) and value.ndim == 2 and not value.is_floating_point() and (ids := batches.host(value)) is not None:
            pad, _ = pad_id([TokenBatch(ids.astype(np.int64), None, None, -100)])
            return {} if pad is None else {"length": torch.from_numpy(ids.shape[1] - (ids == pad).sum(1)).float()}
        if plain(value) and value.ndim >= 3 and value.is_floating_point():
            part = value.detach().flatten(1)
            part = part[:, :: max(1, part.shape[1] // 1024)].float()
            return {"brightness": part.mean(1), "contrast": part.std(1)}
    return {}


class Evaluations(Probe):
    """`accuracy/val`, `eval/*`, `weights_moved` and the facts of the last evaluation."""

    ordinary = ()

    def __init__(self) -> None:
        self.score: Score | None = None
        self._waiting: dict[int, Part] = {}
        self._fallback: Score | None = None
        self._labels: Tensor | None = None  # of the latest batch of a loader that is not trained on
        self._contract: tuple[str, str, int] | None = None  # name, kind, classes of the training loss
        self._heard: dict[int, tuple[str, str, int]] = {}
        self._trained: set[int] = set()
        self._samples: int | None = None
        self._traits: dict[str, Tensor] = {}
        self._words: dict[str, dict[str, int]] = {}  # columns of words → what each is counted as
        self._own: dict[str, Tensor] = {}  # the user's columns for the latest batch
        self._bare: Part | None = None  # the latest batch, as long as nobody gave columns for it
        self._probed: list[tuple[int, Tensor]] = []  # step, targets and predictions of the first samples
        self._buffers: dict[int, int] | None = None  # batch counters before the evaluation
        self._buffers_now: dict[int, int] | None = None  # and after its latest forward
        self._sketch = Sketch()
        self._before: Tensor | None = None  # a few weights at the previous evaluation, and at this one
        self._now: Tensor | None = None
        self._compared = False
        self._differ: Tensor | float | None = None
        self._reported: dict[str, Any] = {}
        self._pairs: dict[str, list[Any]] = {}
        self._last: Score | None = None
        self._fresh = False  # it is that of the latest evaluation
        self._names: tuple[str, ...] = ()
        self._extra = Allowance(share=0.003, burst=2)
        self._looks = Allowance(share=0.005, burst=1)
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
        if phase == TRAIN or self._contract is None or id(scene.loader) in self._trained or not self._looking(scene):
            return
        begun = clock()
        parts = batches.parted(list(batches.fields(batch)))
        if parts is not None and batches.class_labels(parts.target) is not None and parts.target is not None:
            self._labels = parts.target.reshape(-1).clone()
        if parts is not None and isinstance(batch, Mapping):  # what comes along with a batch and is no input of the model
            rest = {k: v for k, v in batch.items() if v is not parts.target and not any(v is t for t in parts.inputs)}
            self._own = self._columns(rest, parts.samples)
        self._looks.spend(clock() - begun)

    def _looking(self, scene: Scene) -> bool:
        return scene.full or self._closely

    def on_forward(self, scene: Scene, forward: Forward) -> None:
        self._samples = batch_size(forward)
        if forward.phase == TRAIN:
            return
        if self._buffers:
            self._buffers_now = counters([forward.model])  # read here: the next training forward moves them too
        self._traits, self._bare = {}, None
        self._compare(scene, forward.model)
        if not self._looking(scene):
            return
        begun = clock()
        self._traits = traits_of(forward)
        if not self._speaks:
            self._judge(forward)
        self._looks.spend(clock() - begun)

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
        begun = clock()
        part = reduced(said, call.output, self._samples, self._traits | self._own)
        self._looks.spend(clock() - begun)
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
                    if len(known) <= _MOST_WORDS:
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
        self._differ, self._compared = None, False
        out |= self._moved(scene)
        if evaluation.printed is not None:
            self._reported.setdefault("loss", evaluation.printed)
        if evaluation.claimed is not None:
            out["eval/claimed_accuracy"] = evaluation.claimed
        score = self.score if self.score is not None and self.score.parts else self._fallback
        if evaluation.hits is not None and score is not None and "accuracy" not in self._reported:
            right, count = evaluation.hits
            self._pairs["accuracy"] = [right / count, score, count]
        if score is not None:
            self._speaks = score is self.score
        self.score = self._fallback = self._buffers = None
        self._fresh = score is not None and score.parts > 0
        if score is not None and self._fresh:
            out |= self._scored(score)
            if scene.facts.get("data.captured") and score.first is not None and len(self._probed) < _MOST_PROBED:
                self._probed.append((evaluation.step, score.first))
        else:
            self._reported = {}  # nothing of ours to compare it with
        self._bare = None
        self._done += 1
        if self._looking(scene):
            self._described = self._done
        free = self._looks.spent_s < _FREE_S or self._done >= _GROWTH * self._described
        self._closely = free or self._looks.granted()
        return out

    def on_eval_dropped(self, scene: Scene, evaluation: Evaluation) -> None:
        self.score = self._fallback = self._buffers = self._buffers_now = self._differ = self._now = None
        self._compared = False
        self._reported = {}

    def on_event(self, scene: Scene, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "retrained" and not data["same_parameters"]:
            self._contract = self._before = self._last = None
            self._trained.clear()
            self._pairs = {}

    def _moved(self, scene: Scene) -> dict[str, Any]:
        now = self._now if self._now is not None else self._sketch.of(scene.params)
        before, self._before, self._now = self._before, now, None
        if before is None or now is None or before.shape != now.shape or before.device != now.device:
            return {}
        return {"weights_moved": torch.ne(before, now).any().float()}

    def _scored(self, score: Score) -> dict[str, Any]:
        self._last = score
        self._pair(score)
        names = [n for n in _SUMS if n in score.sums]
        tensors = [torch.stack([score.sums[n] for n in names])]
        if score.confusion is not None:
            tensors.append(score.confusion)
        close = self._done < 2 or self._extra.granted()
        table = _table(score) if close and score.logits else None
        if table is not None:
            tensors += list(table)
        confused = score.confusion is not None

        def result(*numbers: list[float]) -> Mapping[str, Any]:
            begun = clock()
            got = self._figures(score, dict(zip(names, numbers[0], strict=True)), numbers[1] if confused else None)
            if table is not None:
                got |= _calibrated(numbers[-2], numbers[-1], got.get("loss/val"))
                if self._done > 2:
                    self._extra.spend(clock() - begun)
            return got

        return {"scored": Later(tuple(tensors), result)}

    def _figures(self, score: Score, got: Mapping[str, float], confusion: list[float] | None) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if got.get("rows"):
            out |= {"accuracy/val": got["hits"] / got["rows"], "confidence/val": got["sure"] / got["rows"]}
        if got.get("weight"):
            out["loss/val"] = got["loss"] / got["weight"]
        if got.get("spread", 0) > 0 and got.get("samples", 0) > 1:
            out["eval/loss_se"] = (got["spread"] / got["samples"] ** 2) ** 0.5
        if confusion is not None:
            side = round(len(confusion) ** 0.5)
            if len(self._names) != side:
                self._names = tuple(str(i) for i in range(side))
            each = scoring.per_class(np.array(confusion).reshape(side, side))
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
        if self._pairs and (pairs := {k: p for k, v in self._pairs.items() if (p := _both(k, *v)) is not None}):
            found["eval.metric_recomputed"] = pairs
        score = self._last
        if score is None:
            return found
        if score.confusion is not None:
            found["eval.confusion"] = [[int(v) for v in row] for row in score.confusion.tolist()]
        table = _table(score) if scene.ended else None
        if table is not None and len(table[0]) >= 50:
            logits, targets = table[0].double().cpu().numpy(), table[1].long().cpu().numpy()
            logits, targets = logits[targets >= 0], targets[targets >= 0]
            if len(targets):
                found["eval.ece"] = scoring.ece(logits, targets)
                if logits.shape[1] <= 20:
                    found["eval.auroc"] = scoring.auroc(logits, targets)
                    found["eval.ap"] = scoring.average_precision(logits, targets)
        if score.each and scene.ended:
            found["eval.slices"] = _sliced(score, self._words)
        if score.worst is not None and scene.ended:
            found["eval.worst"] = _told(score.worst)
        if self._probed:
            found["eval.probes"] = _probes(self._probed)
        return found


def _told(worst: Tensor) -> list[dict[str, Any]]:
    """The worst samples, worst first, as plain numbers."""
    out = []
    for loss, place, target, guess in worst.T.tolist():
        known = {"target": target, "predicted": guess} if target == target else {}
        whole = {k: int(v) if v == int(v) else float(f"{v:.6g}") for k, v in known.items() if math.isfinite(v)}
        out.append({"sample": int(place), "loss": float(f"{loss:.6g}")} | whole)
    return out


def _table(score: Score) -> tuple[Tensor, Tensor] | None:
    if not score.logits or len({t.shape[1] for t in score.logits}) != 1:
        return None
    return torch.cat(score.logits), torch.cat(score.targets)


def _calibrated(flat: list[float], marks: list[float], loss: float | None) -> dict[str, float]:
    targets = np.array(marks).astype(np.int64)
    logits = np.array(flat).reshape(len(targets), -1)
    logits, targets = logits[targets >= 0], targets[targets >= 0]
    if len(targets) < 100 or not np.isfinite(logits).all():
        return {}
    degree, gain = scoring.temperature(logits, targets)
    return {"eval/temperature": degree} | ({"eval/nll_tempered": loss - gain} if loss is not None else {})


def _probes(seen: list[tuple[int, Tensor]]) -> dict[str, Any]:
    """The first samples of the evaluations that began with the same ones: their targets, and what was predicted each time."""
    targets = seen[0][1][0]
    same = [(step, told[1]) for step, told in seen if torch.equal(told[0].cpu(), targets.cpu())]
    return {"targets": targets.tolist(), "steps": [s for s, _ in same], "predicted": [p.tolist() for _, p in same]}


def _sliced(score: Score, words: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    names = set.intersection(*(set(t) for t in score.traits))
    each = torch.cat(score.each).double().cpu().numpy()
    groups = {n: torch.cat([t[n] for t in score.traits]).double().cpu().numpy() for n in sorted(names)}
    groups = {n: g for n, g in groups.items() if np.isfinite(g).all()}
    good = np.isfinite(each)
    named = {n: list(words[n]) for n in groups if n in words}
    for name in groups.keys() - named.keys() - set(_MEASURED):
        few, place = np.unique(groups[name], return_inverse=True)
        if len(few) <= _MOST_WORDS and (few == np.round(few)).all():
            named[name], groups[name] = [f"{v:g}" for v in few], place.astype(np.float64)
    return scoring.slices(each[good], {n: g[good] for n, g in groups.items()}, named)[:12]


def metric_kind(name: str) -> str | None:
    """accuracy or loss, when a metric's name says so without a doubt: `val_acc`, `valid/loss`, `eval_accuracy`."""
    bare = name.lower().replace("/", "_").replace(".", "_").replace("-", "_")
    for prefix in ("validation_", "valid_", "val_", "eval_", "test_"):
        bare = bare.removeprefix(prefix)
    if bare in ACCURACY_NAMES:
        return "accuracy"
    return "loss" if bare in LOSS_NAMES else None


def _both(kind: str, reported: Any, score: Score, rows: int | None = None) -> list[float] | None:
    """[reported, recomputed]; `rows`: what was reported is about so many answers, and only comparable with as many."""
    sums = {k: float(v) for k, v in score.sums.items()}
    top, bottom = ("hits", "rows") if kind == "accuracy" else ("loss", "weight")
    if not sums.get(bottom) or (kind == "loss" and not score.own_loss) or rows not in (None, round(sums[bottom])):
        return None
    said = float(reported)
    if kind == "accuracy" and said > 1.5:
        said /= 100.0  # a percentage
    return [said, sums[top] / sums[bottom]]


PROBES = [Evaluations]
