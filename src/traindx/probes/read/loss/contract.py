"""The loss call's contract: what kind of loss it is, and whether what goes in is what that loss expects.

Every number comes from the call's own tensors on full steps; the answers about all batches ("every row summed to 1") are
kept as running minima and maxima on the device, so a later batch can always clear an early suspicion. A call counts
once it has settled as training. A loss that the script wrote itself is read off its own calls (`handmade.py`) on full steps;
where that cannot be done the facts are absent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traindx.measures import peek
from traindx.probe import TRAIN, VAL, Forward, Later, LossCall, Probe, Reading, Row, Scene
from traindx.probes.read.common import graph, losses, sites
from traindx.probes.read.common.losses import BINARY, CLASSES, REGRESSION, Spoken, batch_size, some
from traindx.probes.read.common.passes import divisor
from traindx.probes.read.common.tally import Tally, with_withdrawals
from traindx.probes.read.common.token_batches import TokenCatch
from traindx.probes.read.loss import handmade

MOST_CLASSES = 100  # per-class signals stop here
_KEPT_TARGETS = 4096  # target values kept for counting distinct ones
_PENDING = 64  # calls waiting for their phase
_ROW_TOLERANCE = 1e-3  # rows of probabilities sum to 1 within this, also in bf16 (CATALOGUE WIRE006)
_MIN_BATCHES = 3  # CATALOGUE WIRE006: on 3 batches

_WATCHED = 20  # batches without an ignored target before they are no longer counted on every step
_OFTEN = 40  # checked calls after which one full step in four is checked
_WEIGHED = 0.01  # share by which the weight of a micro-batch may differ from that of its tokens
_TERM, _MICRO = "term", "micro"  # where a call's own value waits for its phase

_LOWS = ("input_min", "target_min", "row_low", "loss_min", "row_sum_min", "one_hot", "fixed_order", "valid_min")
_HIGHS = ("input_max", "target_max", "row_off", "log_off", "fraction", "row_sum_max", "column_off", "first_class")
_SUMS = ("beyond", "targets", "valid", "asked")


def check(said: Spoken, head: Mapping[str, Any] | None) -> dict[str, Tensor]:
    """One row for the tally: the extremes of a call's input and target, and how far its rows are from probabilities."""
    x = some(said.input).float()
    low, high = torch.aminmax(x)
    found = {"input_min": low, "input_max": high}
    y = said.target
    if y is not None and said.name != "ctc_loss":
        found |= _targets(said, y, head)
    if said.kind in CLASSES and said.input.ndim >= 1:
        found |= _rows(said)
    elif said.kind == "kl" and said.input.ndim >= 2:
        table = said.input.reshape(-1, said.input.shape[-1])[:512].float()
        found |= {"row_low": table.min(), "row_off": (table.sum(1) - 1).abs().max(), "log_off": table.logsumexp(1).abs().max()}
    return found


def _rows(said: Spoken) -> dict[str, Tensor]:
    x = said.input if said.input.ndim > 1 else said.input[None]
    count = x.shape[1]
    step = max(1, -(-x.numel() // (count * max(losses.FEWEST_ROWS, losses.MOST // count))))
    table = x.movedim(1, -1).reshape(-1, count)[::step].float()
    found = {
        "row_low": table.min(),
        "row_off": (table.sum(1) - 1).abs().max(),
        "log_off": table.logsumexp(1).abs().max(),
    }
    if x.ndim == 2 and x.shape[0] > 1:
        found["column_off"] = (x.float().sum(0) - 1).abs().max()
    return found


def _targets(said: Spoken, y: Tensor, head: Mapping[str, Any] | None) -> dict[str, Tensor]:
    flat = some(y)
    if said.indices:
        valid = flat != said.ignore_index
        n = valid.sum()
        blank = flat.new_zeros(())
        inside = torch.where(valid, flat, blank)
        found = {"target_min": inside.min(), "target_max": inside.max(), "valid": n, "asked": torch.ones_like(n) * flat.numel()}
        found["valid_min"] = n.float() / flat.numel()
        if y.ndim == 1 and said.input.ndim == 2 and y.shape[0] == said.input.shape[1] == said.input.shape[0]:
            found["fixed_order"] = (y == torch.arange(len(y), device=y.device)).float().mean()
        return found
    real = flat.float()
    low, high = torch.aminmax(real)
    found = {"target_min": low, "target_max": high, "fraction": (real - real.round()).abs().max()}
    found["targets"] = torch.ones_like(low) * real.numel()
    reachable = [0.0, 1.0] if said.kind in BINARY else (head or {}).get("range", [None, None])
    found["beyond"] = beyond(real, reachable)
    if y.ndim >= 2 and y.shape[-1 if said.kind not in CLASSES else 1] > 1:
        rows = (
            y.movedim(1 if said.kind in CLASSES else -1, -1)
            .reshape(-1, y.shape[1 if said.kind in CLASSES else -1])[:512]
            .float()
        )
        total = rows.sum(1)
        found |= {"row_sum_min": total.min(), "row_sum_max": total.max()}
        found["first_class"] = rows[:, 0].max()
        found["one_hot"] = (((rows == 0) | (rows == 1)).all(1) & (total == 1)).float().min()
    return found


def beyond(targets: Tensor, reachable: list[float | None]) -> Tensor:
    """How many targets lie outside [lo, hi], with a millionth of slack; None is no bound."""
    lo, hi = reachable
    out = torch.zeros_like(targets, dtype=torch.bool)
    if lo is not None:
        out |= targets < lo - 1e-6 * max(1.0, abs(lo))
    if hi is not None:
        out |= targets > hi + 1e-6 * max(1.0, abs(hi))
    return out.sum()


@dataclass
class Site:
    """One place in the user's code that calls a loss."""

    first: dict[str, Any]  # what does not change from call to call: kind, options, shapes
    trained: int = 0  # calls that settled as training
    stretched: int = 0  # calls whose shapes differed
    shapes: set[tuple[Any, ...]] = field(default_factory=set)
    tally: Tally = field(default_factory=lambda: Tally(lows=_LOWS, highs=_HIGHS, sums=_SUMS))
    head: dict[str, Any] | None = None
    heads: int = 0  # checked calls
    axis: dict[str, Any] | None = None
    written: bool = False  # in the script's own words
    straight: int = 0  # checked calls whose input came straight from a linear layer
    values: list[Tensor] = field(default_factory=list)  # a few targets
    kept: int = 0
    ignores: bool = True  # ignored targets may occur: watched every step until the first batches say otherwise
    counted: int = 0  # batches whose ignored targets were counted
    names: tuple[str, ...] = ()  # of the classes


def outline(said: Spoken, call: LossCall) -> dict[str, Any]:
    """What one call says about all of them."""
    target = said.target
    return {
        "loss.kind": said.kind,
        "loss.site": call.site if sites.users(call.site) else sites.line() or call.site,  # a framework's line cannot be edited
        "loss.reduction": said.reduction,
        "loss.smoothing": said.smoothing if said.kind == "ce" else None,
        "loss.ignore_index": said.ignore_index if said.kind in CLASSES else None,
        "loss.weighted": said.weight is not None,
        "loss.weightless": _weightless(said),
        "loss.classes": said.classes,
        "loss.input_shape": list(said.input.shape),
        "loss.target_shape": list(target.shape) if target is not None else None,
        "loss.target_dtype": str(target.dtype).removeprefix("torch.") if target is not None else None,
        "loss.may_be_negative": said.may_be_negative,
    }


def _weightless(said: Spoken) -> list[int] | None:
    """Classes whose weight in the loss is zero; None where there are no weights, or they are not in host memory."""
    weight = said.weight
    if weight is None or said.kind not in CLASSES or weight.ndim != 1 or weight.device.type != "cpu":
        return None
    return [int(i) for i in np.flatnonzero(np.asarray(weight.detach().float()) == 0)[:100]] or None


def stretched(said: Spoken) -> bool:
    """Input and target had different shapes and one stretched the other; a single number as target is meant so."""
    x, y = said.input, said.target
    if y is None or said.kind not in (*REGRESSION, "kl") or x.shape == y.shape:
        return False
    return min(x.numel(), y.numel()) > 1


def wrong_axis(said: Spoken) -> dict[str, Any] | None:
    """The class axis of a call whose logits came from a linear layer but not with its features on axis 1, or were reshaped to
    rows across it."""
    if said.kind not in CLASSES or said.input.ndim < 2:
        return None
    if said.input.ndim == 2:
        made = graph.torn(said.input)
        return None if made is None else {"shape": list(made), "classes": made[1], "torn": True}
    placed = graph.features_axis(said.input)
    if placed is None or placed[0] == 1:
        return None
    return {"shape": list(said.input.shape), "classes": placed[1]}


class Contract(Probe):
    """`loss.*`, what the head does, and accuracy, confidence and spread of what goes into the training loss."""

    ordinary = ("on_loss", "on_settled", "before_step")

    def __init__(self) -> None:
        self.idle = False  # no loss call ignores targets, as far as is known: ordinary steps have nothing to tell
        self.sites: dict[tuple[str, str], Site] = {}
        self._waiting: dict[int, tuple[Site, dict[str, Any], dict[str, Tensor]]] = {}
        self._tokens = TokenCatch()
        self._samples: int | None = None  # batch size of the latest forward
        self._said: set[str] = set()
        self._ignoring = True  # some call may ignore targets: then every step is looked at
        self._lowest: Tensor | None = None  # smallest training loss so far
        self._by_hand: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self._divided = False
        self._terms: dict[str, Tensor] = {}  # this update's loss calls by where they stand
        self._term_names: tuple[str, ...] = ()
        self._roots: list[Tensor] = []  # what the backwards of this update began with
        self._micro: dict[
            int, list[Tensor]
        ] = {}  # call site, or line of a loss by hand → (valid targets, loss) of each backward

    def on_forward(self, scene: Scene, forward: Forward) -> None:
        if forward.phase == VAL:
            self._tokens.validation(forward)
        if not scene.full:
            return
        self._samples = batch_size(forward)
        if forward.phase != VAL and forward.grad:
            self._tokens.forward(forward, scene.loader)

    def on_loss(self, scene: Scene, call: LossCall) -> None:
        if not (scene.full or self._ignoring) or call.phase == VAL or not call.grad:
            return
        said = losses.read(call)
        if said is None:
            return
        site = self._site(call, said)
        if site is None:
            return
        if scene.full:
            often = site.heads < _OFTEN or scene.step % 4 == 0
            entry = (site, self._measured(site, said, call), self._checked(site, said, call) if often else {})
            self._tokens.loss(said, self._samples)
        elif site.ignores and said.indices:
            entry = (site, {"batch/valid_targets": counted_share(said)}, {})
        else:
            return
        if len(self._waiting) >= _PENDING:
            self._waiting.pop(next(iter(self._waiting)))
        self._waiting[call.serial] = entry

    def _site(self, call: LossCall, said: Spoken) -> Site | None:
        """What is known of the place of a call; a head with another number of classes is another place."""
        key = (call.site, call.name)
        site = self.sites.get(key)
        if site is not None and site.first["loss.classes"] == said.classes:
            return site
        if site is None and len(self.sites) >= 64:  # a loss called from everywhere: enough is known
            return None
        site = self.sites[key] = Site(outline(said, call))
        return site

    def on_settled(self, scene: Scene, call: LossCall, phase: str) -> Reading | None:
        entry = self._waiting.pop(call.serial, None) if self._waiting else None
        if entry is None:
            return None
        if phase == TRAIN:
            return self._trained(scene, call, *entry)
        share = entry[1].get("batch/valid_targets")
        if phase != VAL and share is not None and peek(share) == 0.0:
            scene.event("empty_targets")  # a loss of nothing, which the script leaves out
        return None

    def _trained(
        self, scene: Scene, call: LossCall, site: Site, reading: dict[str, Any], row: dict[str, Tensor]
    ) -> dict[str, Any]:
        site.trained += 1
        if row:
            site.tally.add(row)
        if (micro := reading.pop(_MICRO, None)) is not None:
            self._micro.setdefault(id(site), []).append(micro)
        if (term := reading.pop(_TERM, None)) is not None:
            self._terms[f"{call.site.rsplit('/', 1)[-1]} {call.name}"] = term
        if (share := reading.get("batch/valid_targets")) is not None:
            known = peek(share)
            if known is not None:
                self._empty(scene, site, known)
            else:
                reading["empty"] = Later((share.reshape(1),), lambda s: self._empty(scene, site, s[0]))
        return reading

    def _empty(self, scene: Scene, site: Site, share: float) -> Mapping[str, Any]:
        site.counted += 1
        site.ignores = share < 1.0 or (site.ignores and site.counted < _WATCHED)
        self._ignoring = any(s.ignores for s in self.sites.values() if s.counted)
        if share == 0.0:
            scene.event("empty_targets")
        return {}

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if scene.full:
            self.idle = not any(s.ignores and s.counted for s in self.sites.values())
        if not (self._terms or self._micro):
            self._roots.clear()
            return None
        terms, self._terms = self._terms, {}
        micro, self._micro = self._micro, {}
        roots, self._roots = self._roots, []
        out: dict[str, Any] = {}
        if len(terms) > 1:
            if tuple(terms) != self._term_names:
                self._term_names = tuple(terms)
            out["loss/terms"] = Row(self._term_names, torch.cat(list(terms.values())))
        parts = max(micro.values(), key=len, default=[])
        if len(parts) > 1:
            valid, losses_ = torch.stack(parts).double().unbind(1)
            whole = valid.sum().clamp(min=1.0)
            apart = valid.std() / valid.mean().clamp(min=1e-9)
            if len(roots) == len(parts):  # weighed by their tokens, they count as they should
                weight = torch.cat(roots).to(losses_) / losses_
                off = (weight / weight.sum() - valid / whole).abs().max()
                apart = torch.where(off < _WEIGHED, torch.zeros_like(apart), apart)
            out["batch/micro_valid_cv"] = apart
            out["loss/token_mean"] = (torch.nan_to_num(losses_) * valid).sum() / whole
        elif parts and self._divided:  # by how much a sum was divided shows beside its mean
            out["loss/token_mean"] = parts[0][1]
        return out

    def on_event(self, scene: Scene, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "retrained" and not data["same_parameters"]:  # another training has another contract
            self.sites.clear()
            self._waiting.clear()
            self._micro.clear()
            self._roots.clear()
            self._terms.clear()
            self._tokens = TokenCatch()
            self._lowest = self._by_hand = None
            self._divided = False
            self._ignoring, self.idle = True, False

    def on_loss_error(self, scene: Scene, call: LossCall, error: BaseException) -> None:
        """A loss function raised: say so when a label lies outside the classes (waiting is fine, the run is over)."""
        said = losses.read(call)
        if said is None or not said.indices or said.target is None or said.target.device.type != "cpu":
            return
        counted = said.target[said.target != said.ignore_index]
        if counted.numel() and said.classes:
            low, high = int(counted.min()), int(counted.max())
            if low < 0 or high >= said.classes:
                scene.event("label_out_of_range", min=low, max=high, classes=said.classes)

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        if not scene.full:
            return None
        out: dict[str, Any] = {}
        for written in handmade.read(scene.taped(), loss):
            call, said = written.call, losses.read(written.call)
            if said is not None and (site := self._site(call, said)) is not None:
                site.written = True
                if said.indices and said.target is not None and said.target.ndim > 1:
                    self._tokens.loss(said, self._samples)
                row = self._checked(site, said, call)
                if written.over is not None:
                    site.head = {"kind": "log_softmax", "range": [None, 0.0], "dim": written.over}
                out |= self._trained(scene, call, site, self._measured(site, said, call), row)
        self._tokens.by_hand(loss)
        self._tokens.reset()
        if loss.numel() == 1:
            value = loss.detach().reshape(()).float()
            if len(self._roots) < _PENDING:
                self._roots.append(value.reshape(1).clone())
            same = self._lowest is not None and self._lowest.device == value.device
            self._lowest = torch.fmin(self._lowest, value) if same and self._lowest is not None else value.clone()
        if self._by_hand is None:
            self._by_hand = graph.broadcast_difference(loss)
        kinds = {site.first["loss.reduction"] for site in self.sites.values() if not site.written}
        if loss.numel() == 1 and "mean" not in kinds:
            self._part(loss)
            if kinds == {"sum"}:  # a sum over tokens that is divided by their number is a mean
                self._divided = self._divided or divisor(loss) > 1
        return out

    def _part(self, loss: Tensor) -> None:
        """A mean over tokens that the script took itself may be one of several micro-batches: those of one backward line."""
        mean = graph.averaged_over(loss) if self._tokens.seen else None
        if mean is None:
            return
        parts = self._micro.setdefault(hash(sites.line()), [])
        if len(parts) < _PENDING:
            count, divided = mean
            value = loss.detach().reshape(1).float() * (divisor(loss) if divided else 1.0)
            counted = count.reshape(1).to(value) if isinstance(count, Tensor) else value.new_full((1,), count)
            parts.append(torch.cat([counted, value]))

    def _measured(self, site: Site, said: Spoken, call: LossCall) -> dict[str, Any]:
        out = measured(site, said, self._samples)
        if isinstance(call.output, Tensor) and call.output.numel() == 1:
            out[_TERM] = call.output.detach().reshape(1).float().clone()
            if said.indices and said.target is not None and said.reduction in ("mean", "sum"):
                valid = torch.ne(said.target, said.ignore_index).sum().float().reshape(1)
                out[_MICRO] = torch.cat([valid, out[_TERM] / valid if said.reduction == "sum" else out[_TERM]])
        return out

    def _checked(self, site: Site, said: Spoken, call: LossCall) -> dict[str, Tensor]:
        head = graph.head_activation(said.input)
        if head is not None:
            head["module"] = call.producer
        site.head = head if not site.heads or head == site.head else None
        site.heads += 1
        site.stretched += stretched(said)
        site.straight += graph.features_axis(said.input) is not None
        site.axis = site.axis or wrong_axis(said)
        if said.target is not None and site.kept < _KEPT_TARGETS:
            part = some(said.target, 256).to(torch.float64)
            site.values.append(part)
            site.kept += len(part)
        return check(said, head)

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        main = self.main()
        if self._lowest is not None and float(self._lowest) < 0:
            found["loss.may_be_negative"] = True
        if main is not None:
            found = {k: v for k, v in main.first.items() if v is not None} | judged(main) | found
            if main.first["loss.may_be_negative"]:
                found["loss.may_be_negative"] = True
            if self._divided:
                found["loss.divided"] = True
        elif self._by_hand is not None:
            found |= {"loss.kind": "unknown"}
        if self._by_hand is not None and not found.get("loss.broadcast"):
            found |= {"loss.broadcast": True, "loss.input_shape": list(self._by_hand[0])}
        return with_withdrawals(found | self._tokens.facts(scene), self._said)

    def main(self) -> Site | None:
        """The call that trains: the most often settled one, the first of equals; one of a known kind where there is any."""
        trained = [s for s in self.sites.values() if s.trained]
        most = max((s.trained for s in trained), default=0)
        often = [s for s in trained if 2 * s.trained >= most and s.first["loss.kind"] != "unknown"]
        return max(often or trained, key=lambda s: s.trained) if trained else None


def counted_share(said: Spoken) -> Tensor:
    """Share of the targets that are not ignored."""
    assert said.target is not None
    return torch.ne(said.target, said.ignore_index).float().mean()


def measured(site: Site, said: Spoken, samples: int | None) -> dict[str, Any]:
    """The per-step readings of one training call."""
    out: dict[str, Any] = {}
    scale = float(samples or said.input.shape[0] if said.input.ndim else 1) ** 2 if said.reduction == "sum" else 1.0
    if (table := losses.rows(said, samples)) is not None:
        got = losses.classification(said, table)
        out |= {
            "accuracy/train": got["accuracy"],
            "confidence/train": got["confidence"],
            "output_top_share": got["top_share"],
            "logz_mean": got["logz"],
            "logit_maxabs": got["maxabs"],
            "output_std": got["output_std"],
            "batch/valid_targets": counted_share(said),
            "loss/sample_var": got["sample_var"] * scale,
        }
        return out | _label_counts(site, said)
    if said.kind in BINARY:
        got = losses.binary(said)
        names = {"accuracy": "accuracy/train", "confidence": "confidence/train", "top_share": "output_top_share"}
        out |= {names[k]: got[k] for k in names if k in got}
        out |= {"output_std": got["output_std"], "logit_maxabs": got["maxabs"]}
    elif said.kind in REGRESSION and said.input.ndim:
        out["output_std"] = losses.spread(said.input.reshape(said.input.shape[0], -1)[:, :64].float())
    if (each := losses.elementwise(said)) is not None and each.shape[0] > 1:
        out["loss/sample_var"] = each.mean(1).var() * scale
    return out


def _label_counts(site: Site, said: Spoken) -> dict[str, Any]:
    count = said.classes
    if said.target is None or count is None or not 1 < count <= MOST_CLASSES:
        return {}
    if len(site.names) != count:
        site.names = tuple(str(i) for i in range(count))
    flat = some(said.target).long()
    inside = (flat != said.ignore_index) & (flat >= 0) & (flat < count)
    counts = torch.zeros(count, dtype=torch.float32, device=flat.device).index_add_(0, flat.clamp(0, count - 1), inside.float())
    return {"batch/labels/class": Row(site.names, counts)}


def judged(site: Site) -> dict[str, Any]:
    """The facts that need all checked batches; reads the device."""
    # logits masked with -inf have no finite bound: the tally leaves it out
    got = {"input_min": -math.inf, "input_max": math.inf, **site.tally.read()}
    kind, n = site.first["loss.kind"], site.tally.added
    if not n:
        return {}
    found: dict[str, Any] = {
        "loss.checked_batches": n,
        "loss.input_range": [got["input_min"], got["input_max"]],
        "loss.broadcast": bool(site.stretched == site.heads and site.stretched),
    }
    if "target_min" in got:
        found["loss.target_range"] = [got["target_min"], got["target_max"]]
    found["loss.straight"] = bool(site.straight == site.heads and site.straight)
    if site.head is not None:
        found["model.head_activation"] = site.head
    if site.axis is not None:
        found["loss.wrong_class_axis"] = site.axis
    if n >= _MIN_BATCHES:
        found |= _shapes_of_rows(kind, got)
    return found | _about_targets(site, kind, got)


def _shapes_of_rows(kind: str, got: Mapping[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "row_off" in got:
        found["loss.probabilities"] = bool(got["row_low"] >= 0 and got["row_off"] <= _ROW_TOLERANCE)
        found["loss.log_probabilities"] = bool(got["input_max"] <= _ROW_TOLERANCE and got["log_off"] <= 10 * _ROW_TOLERANCE)
    if "column_off" in got:
        found["loss.column_probabilities"] = bool(got["input_min"] >= 0 and got["column_off"] <= _ROW_TOLERANCE)
    if kind in (*BINARY, *CLASSES):
        found["loss.unit_interval"] = bool(got["input_min"] >= 0 and got["input_max"] <= 1)
    return found


def _about_targets(site: Site, kind: str, got: Mapping[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if site.values:
        values = torch.cat([v.cpu() for v in site.values])
        unique, counts = torch.unique(values, return_counts=True)
        found["loss.target_unique"] = min(1001, int(unique.numel()))
        found["loss.target_evenness"] = float(counts.min() / counts.max())
    if kind in REGRESSION and "fraction" in got:
        small = got["fraction"] == 0 and max(abs(got["target_min"]), abs(got["target_max"])) <= 1000
        found["loss.target_integral"] = bool(small and found.get("loss.target_unique", 0) > 1)
    if got.get("targets") and (kind in BINARY or (site.head and site.head["range"] != [None, None])):
        found["loss.unreachable_share"] = got["beyond"] / got["targets"]
    if kind in CLASSES and "row_sum_min" in got:
        found["loss.target_row_sum"] = [got["row_sum_min"], got["row_sum_max"]]
        found["loss.target_first_class"] = got["first_class"]
    if "one_hot" in got:
        found["loss.target_one_hot"] = bool(got["one_hot"] == 1.0)
    if got.get("fixed_order") == 1.0 and site.tally.added >= _MIN_BATCHES:
        found["loss.kind"] = "contrastive"  # row i belongs to column i in every batch: in-batch negatives
    return found


PROBES = [Contract]
