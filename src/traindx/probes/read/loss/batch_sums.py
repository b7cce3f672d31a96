"""A validation batch reduced to sums on its device, and the evaluation they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from traindx.probe import Forward
from traindx.probes.read.common import batches, losses
from traindx.probes.read.common.losses import Spoken, plain
from traindx.probes.read.common.token_ids import TokenBatch, pad_id
from traindx.probes.read.loss.contract import MOST_CLASSES

_KEPT_ROWS, _KEPT_ELEMENTS = 2_000, 40_000  # logits kept of an evaluation for calibration
_KEPT_SAMPLES = 4_000  # per-sample losses kept for slices
_WORST = 10  # samples with the largest loss
_FIRST = 8  # samples whose answers are kept per evaluation, when raw samples may be kept


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
    names: tuple[str, ...] = ()  # of the classes, where they are not numbers from 0 on

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


def answered(truth: Any, guess: Any) -> Score | None:
    """The evaluation that labels and predictions come to, when they are classes: one answer for each sample."""
    one, two = (np.asarray(part) for part in (truth, guess))
    kinds = {part.dtype.kind for part in (one, two)}
    if one.ndim != 1 or two.shape != one.shape or not len(one) or not (kinds <= set("biuf") or kinds <= set("US")):
        return None
    found = _places(np.concatenate([one, two]))
    if found is None:
        return None
    place, side, names = found
    n = len(one)
    table = np.bincount(place[:n] * side + place[n:], minlength=side * side).reshape(side, side)
    confusion = torch.from_numpy(table.astype(np.float32))
    sums = {"hits": confusion.diag().sum().double(), "rows": torch.tensor(float(n), dtype=torch.float64, device="cpu")}
    return Score(sums=sums, confusion=confusion, parts=1, own_loss=False, names=names)


def _places(labels: NDArray[Any]) -> tuple[NDArray[np.int64], int, tuple[str, ...]] | None:
    """Labels as numbers from 0 on, how many there are, and their names where they are no such numbers themselves."""
    kinds, place = np.unique(labels, return_inverse=True)
    if kinds.dtype.kind not in "US":
        if not (kinds == np.round(kinds)).all():
            return None
        if kinds[0] >= 0 and 0 < kinds[-1] < MOST_CLASSES:  # as a loss has them: a class that nobody names keeps its place
            return labels.astype(np.int64), int(kinds[-1]) + 1, ()
    names = tuple(f"{k:g}" if kinds.dtype.kind not in "US" else str(k) for k in kinds)
    return (place, len(kinds), names) if 2 <= len(kinds) <= MOST_CLASSES else None


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
        if said.kind == "bce_logits":  # logits that are taken for probabilities
            part.sums["half"] = torch.eq(said.input > 0.5, said.target > 0.5).sum().double()
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
            "places": torch.full_like(asked, float(said.target.numel())),
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
