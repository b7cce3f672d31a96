"""The loop's own facts: clearing, clipping, scaling, scheduling, modes, files; counted per update, noted when out of order."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from traindx import innards
from traindx.measures import peek, readable
from traindx.probes.drive.plan import FIRST
from traindx.probes.follow.models import Stage
from traindx.probes.follow.step import Micro, Step
from traindx.probes.read.common import sites
from traindx.probes.read.common.sketch import digest

WATCHED = (
    "double_step", "clip_after_step", "clip_before_unscale", "clip_value", "clip_nonfinite", "scaler_bypassed",
    "scaler_no_update", "scaler_with_bf16", "backward_in_autocast", "accumulation_undivided", "grad_all_none",
    "batch_size_one", "scheduler_order", "lr_jump", "nonfinite", "nan_hidden", "inplace_error", "mode", "evaluation",
    "epoch", "spike", "checkpoint", "load", "exception", "retrained", "eval_dropout", "loader_dry", "detached_loss",
    "stale_grads", "accumulation_discarded", "weights_back",
)  # fmt: skip


_autocasting = innards.autocasting
BY_HAND = 0  # the key of whoever updates without an optimizer
DOUBTS = 20  # steps that look wrong at a glimpse, per sign, are told at length; by then a rule can speak


@dataclass(slots=True)
class _Owner:
    """An optimizer as the loop sees it: its sentinel gradient tells clearing, touching and staleness apart."""

    sentinel: weakref.ref[Tensor] | None = None
    grad: tuple[int, int] | None = None  # (id, version) of the sentinel's gradient after the last backward or step
    waits: bool = False  # no backward has reached it since its step
    stale: bool = False
    cleared: bool = False
    backwards: int = -1  # serial of the last backward at its latest step
    unreached: bool = False  # no backward ever brought one of its parameters a gradient
    anew: bool = False  # cleared between two backwards of one update (sharpness-aware minimisation): they do not add up
    touched: bool = False  # somebody changed the gradient after the backward (not a known clip or unscale)


class Loop:
    """Listens to everything around the pass."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._recorder, self._scene = stage, stage.recorder, stage.scene
        self.owners: dict[int, _Owner] = {}
        self.latest: _Owner | None = None  # whose step was the latest
        self.backwards = 0
        self._scalers: dict[int, dict[str, Any]] = {}
        self._scaled: tuple[weakref.ref[Tensor], Any] | None = None  # scaled loss → the loss it came from
        self._in_scaler: Any = None
        self._names: tuple[str, ...] = ()
        self._objects: set[int] = set()
        self.expects_touch = self._in_closure = False
        self._steps: dict[int, int] = {}  # of each optimizer that ever stepped, in order of first step
        self._early_schedule = False
        self._autocast: str | None = None
        self._asleep: set[str] | None = None
        self._totals = dict.fromkeys(("wall", "data", "eval", "checkpoint", "traindx"), 0.0)
        self._site = ""  # where the backward of the latest update was called
        self._lines = stage.lines
        self._masked = -1  # the latest step on which the model replaced NaN
        self._doubts: dict[str, int] = {}  # sign that a glimpsed step is wrong → how often it was seen
        self._scene.fact("watched", list(WATCHED))
        self._scene.fact("amp.scaler", False)
        self._recorder.sources.append(self._facts)

    # -- gradients: clearing and staleness

    def zero_grad(self) -> None:
        """zero_grad of an optimizer or a module."""
        self._stage.step.zero_grads += 1
        self._lines.here("late_zero_grad" if self._stage.step.backwards else "zero_grad")

    def before_backward(self) -> None:
        self.backwards += 1
        self.expects_touch, self._scene.clipped = False, None
        self._lines.here("backward")
        if _autocasting():
            self._recorder.event("backward_in_autocast", {})
        begun = self._stage.step.backwards > 0
        for owner in self.owners.values():
            now = _grad_state(owner.sentinel)
            owner.anew = begun and (owner.anew or now is None or now != owner.grad)
            if now is None or now != owner.grad:  # cleared: set to None, or written over
                owner.cleared = owner.waits = True
                owner.stale = False
                owner.grad = now

    def after_backward(self) -> None:
        for key, owner in self.owners.items():
            if owner.sentinel is None:  # no update of it was made with a gradient yet
                self._reached(key, owner)
            now = _grad_state(owner.sentinel)
            if (
                now != owner.grad and owner.waits
            ):  # this backward reached it, the first since its step (or since it was cleared)
                owner.stale = not owner.cleared
                owner.waits = False
            owner.grad = now

    def _reached(self, key: int, owner: _Owner) -> None:
        """Whether this backward has brought any parameter of this optimizer a gradient."""
        optimizer = next((o for o in self._stage.optimizers if id(o) == key), None)
        param = _first_graded(optimizer) if optimizer is not None else None
        owner.unreached = optimizer is not None and param is None
        owner.sentinel = weakref.ref(param) if param is not None else None

    def by_hand(self, param: Tensor | None) -> None:
        """The gradients of an update that the script makes by hand are there, this parameter's among them."""
        owner = self.owners.setdefault(BY_HAND, _Owner())
        if owner.sentinel is None or owner.sentinel() is None:
            owner.sentinel = weakref.ref(param) if param is not None else None
            owner.grad = _grad_state(owner.sentinel)

    def by_hand_ended(self) -> None:
        """The update was made."""
        owner, step = self.owners.setdefault(BY_HAND, _Owner()), self._stage.step
        step.stale = int(owner.stale)
        step.zero_grads = max(step.zero_grads, int(owner.cleared))
        owner.waits, owner.stale, owner.cleared = True, False, False

    def doubted(self, sign: str) -> bool:
        """Whether a skipped step that looks wrong in this way is worth telling at length: the first ones are."""
        self._doubts[sign] = seen = self._doubts.get(sign, 0) + 1
        return seen <= DOUBTS

    def before_update(self, optimizer: Any, closure: bool) -> None:
        if "step" not in self._lines.known:
            self._lines.here("step")
            self._lines.put("optimizer", self._lines.made(optimizer))
        owner = self.owners.setdefault(id(optimizer), _Owner())
        self._in_closure = closure
        if owner.cleared and not self._stage.step.zero_grads and optimizer is self._stage.primary:
            self._stage.step.zero_grads = 1  # cleared by hand
        if not closure:
            if owner.backwards == self.backwards:
                self._recorder.event("double_step", {})
            if _first_graded(optimizer) is None:
                self._stage.step.empty = 1
                how = "unreached" if owner.unreached else "cleared" if owner.grad is not None else ""
                self._recorder.event("grad_all_none", {"how": how})
        state = _grad_state(owner.sentinel)
        owner.touched = state != owner.grad and not self.expects_touch
        if self._stage.step.scaled and self._in_scaler is None:
            self._recorder.event("scaler_bypassed", {})
        self._note_stale(owner, optimizer)

    def _note_stale(self, owner: _Owner, optimizer: Any) -> None:
        if owner.stale and optimizer is self._stage.primary:
            self._stage.step.stale = 1
        elif owner.stale:
            place = next((i for i, o in enumerate(self._stage.optimizers) if o is optimizer), 0)
            names = self._scene.owned(optimizer)[1]
            self._recorder.event("stale_grads", {"how": str(place), "optimizer": place, "names": list(names[:20])})

    def after_update(self, optimizer: Any) -> None:
        owner = self.latest = self.owners[id(optimizer)]
        if self._in_closure:
            self._note_stale(owner, optimizer)  # seen in a closure, which is called inside the step
        owner.backwards = self.backwards
        self._site = next((m.site for m in reversed(self._stage.step.losses)), self._site)
        self._steps[id(optimizer)] = self._steps.get(id(optimizer), 0) + 1
        param = owner.sentinel() if owner.sentinel is not None else None
        if param is None or param.grad is None:
            param = _first_graded(optimizer)
            owner.sentinel = weakref.ref(param) if param is not None else None
        grad = None if param is None else param.grad
        owner.grad = None if grad is None else (id(grad), grad._version)
        owner.waits, owner.stale, owner.cleared = True, False, False

    def stepped_again(self, optimizer: Any, times: int) -> None:
        """It has made so many more steps; None: it is gone by now, and was the latest to step."""
        if times:
            key = next(reversed(self._steps), 0) if optimizer is None else id(optimizer)
            self._steps[key] = self._steps.get(key, 0) + times

    def closes(self, step: Step, row: dict[str, Any]) -> None:
        """The update is complete: look for accumulation; add the scaler's state; sum up the time."""
        self.aside(step)
        self.spent(row["time/step"], step.data_s, self._recorder.spent_s)
        if self._scene.full:
            asleep = set(self._stage.asleep())
            self._asleep = self._asleep & asleep if self._asleep and asleep else asleep
            row["loop/eval_submodules"] = len(asleep)
        owner = self.owners.get(id(self._stage.primary))
        if (
            owner is not None
            and not owner.touched
            and self._steps.get(id(self._stage.primary), 0) > 1
            and _undivided(step.losses)
        ):
            self._recorder.event("accumulation_undivided", {"k": len(step.losses), "anew": owner.anew})
        elif owner is not None and not owner.touched and step.zero_grads >= len(step.losses) > 2 and _of_one(step.losses):
            self._recorder.event("accumulation_discarded", {"k": len(step.losses)})
        for scaler in self._scalers.values():
            if scaler.get("scale") is not None:
                self._recorder.take({"amp/scale": scaler["scale"], "amp/skipped": 0.0}, "loop")

    def aside(self, step: Step) -> None:
        """Sum up the time that this step has spent on other things than training."""
        totals = self._totals
        totals["wall"] += step.eval_s + step.checkpoint_s
        totals["eval"] += step.eval_s
        totals["checkpoint"] += step.checkpoint_s

    def spent(self, train_s: float, data_s: float, own_s: float) -> None:
        """Sum up the time that it has spent on training."""
        totals = self._totals
        totals["wall"] += train_s
        totals["data"] += data_s
        if self._scene.step >= FIRST:  # the first steps are read in full on purpose
            totals["traindx"] += own_s

    # -- clipping

    def clipped(self, norm: Any, limit: Any, kind: Any) -> None:
        """clip_grad_norm_ was called."""
        step = self._stage.step
        step.clips += 1
        self._lines.here("clip")
        self._clip_order()
        bound = float(limit) if isinstance(limit, float | int) else None
        if isinstance(norm, Tensor) and not readable(norm):  # a part of a sum over ranks, which only a collective would make
            self._scene.blind("clip/norm", "each rank has its own part of it only")
        elif isinstance(norm, Tensor) and norm.numel() == 1:
            value = peek(norm)
            reading: dict[str, Any] = {"clip/norm": value if value is not None else norm.detach().clone()}
            if bound is not None:
                reading["clip/threshold"] = bound
            if kind in (2, 2.0) and (step.unscaled or not step.scaled):
                self._scene.clipped = reading["clip/norm"]
            self._recorder.take(reading, "loop")
            if value is not None and not math.isfinite(value):
                self._recorder.event("clip_nonfinite", {})

    def clipped_value(self, value: Any) -> None:
        """clip_grad_value_ was called."""
        self._stage.step.clips += 1
        self._lines.here("clip")
        self._clip_order()
        self._recorder.event("clip_value", {"value": float(value) if isinstance(value, float | int) else None})

    def _clip_order(self) -> None:
        self.expects_touch = True
        if any(o.backwards == self.backwards for o in self.owners.values()) and not self._stage.step.backwards:
            self._recorder.event("clip_after_step", {})
        if self._stage.step.scaled and not self._stage.step.unscaled:
            self._recorder.event("clip_before_unscale", {})

    # -- mixed precision

    def scaled(self, scaler: Any, loss: Any, out: Any) -> None:
        """GradScaler.scale was called."""
        self._stage.step.scaled = True
        self._scene.fact("amp.scaler", True)
        if self._autocast == "bfloat16":
            self._recorder.event("scaler_with_bf16", {})
        if isinstance(out, Tensor) and isinstance(loss, Tensor):
            self._scaled = (weakref.ref(out), loss.detach())

    def unscaled_loss(self, root: Tensor) -> Tensor | None:
        scaled, self._scaled = self._scaled, None
        return scaled[1] if scaled is not None and scaled[0]() is root else None

    def unscaled(self, scaler: Any, optimizer: Any) -> None:
        """GradScaler.unscale_ was called."""
        self._stage.step.unscaled = self.expects_touch = True

    def scaler_steps(self, scaler: Any, optimizer: Any) -> None:
        """GradScaler.step begins."""
        state = self._scalers.setdefault(id(scaler), {"stepped": 0, "updated": 0, "scale": None})
        if state["stepped"] > state["updated"] + 1:
            self._recorder.event("scaler_no_update", {})
        state["stepped"] += 1
        state["before"] = self.owners[id(optimizer)].backwards if id(optimizer) in self.owners else None
        self._in_scaler, self.expects_touch = scaler, True
        scale = getattr(scaler, "_scale", None)
        if isinstance(scale, Tensor):
            value = peek(scale)
            state["scale"] = value if value is not None else scale.detach().clone()

    def scaler_stepped(self, scaler: Any, optimizer: Any) -> None:
        """GradScaler.step is over: did the optimizer step?"""
        self._in_scaler = None
        state = self._scalers[id(scaler)]
        owner = self.owners.get(id(optimizer))
        if owner is None or owner.backwards == state["before"]:
            self._recorder.skipped += 1
            back = self._recorder.apart()
            self._recorder.take(
                {"amp/skipped": 1.0, **({"amp/scale": state["scale"]} if state["scale"] is not None else {})}, "loop"
            )
            back(self._scene.step)
            self._stage.step.losses = []

    def scaler_updated(self, scaler: Any) -> None:
        """GradScaler.update was called."""
        state = self._scalers.setdefault(id(scaler), {"stepped": 0, "updated": 0, "scale": None})
        state["updated"] = state["stepped"]

    # -- schedules

    def scheduled(self, scheduler: Any) -> None:
        """An outermost scheduler stepped."""
        self._stage.step.scheduler_steps += 1
        self._objects.add(id(scheduler))
        self._lines.here("schedule")
        if not self._steps:
            self._early_schedule = True
            self._recorder.event("scheduler_order", {})

    def built(self, kind: str, thing: Any) -> None:
        """A scheduler, scaler or optimizer was constructed."""
        if kind == "optimizer":
            self._stage.builds()
            self._lines.makes(thing)
        elif kind == "scheduler":
            self._lines.put("scheduler", sites.line(thing))
        self._recorder.tell("on_built", kind, thing)

    def notes_precision(self) -> None:
        """A training forward, on full steps: which precision is it in?"""
        if (autocast := innards.autocast()) is not None:
            self._autocast = str(autocast[1]).removeprefix("torch.")

    # -- modes, files, seeds, compilers

    def noted(self, module: nn.Module) -> None:
        """Somebody asked a module for its parameters."""
        self._stage.note(module)

    def switched(self, module: nn.Module, training: bool) -> None:
        """train() or eval() of an outermost module."""
        if any(m is module for m in self._stage.models):
            self._stage.patches.asleep(not training)
            if not training:
                self._lines.here("eval")
            self._recorder.event("mode", {"training": training})
            self._recorder.tell("on_mode", module, training)

    def saved(self, thing: Any, path: str, begun: float) -> None:
        """torch.save wrote a file."""
        self._stage.step.checkpoint_s += time.perf_counter() - begun
        self._lines.here("save")
        self._recorder.tell("on_save", thing, path)

    def read(self, thing: Any) -> None:
        """torch.load read a file."""
        self._recorder.tell("on_read", thing)

    def loaded(self, thing: Any, state: Any, result: Any) -> None:
        """load_state_dict of a module or optimizer."""
        keys = tuple(str(k) for k in state) if isinstance(state, Mapping) else ()
        missing = list(getattr(result, "missing_keys", ()))
        unexpected = list(getattr(result, "unexpected_keys", ()))
        what = "optimizer" if isinstance(thing, Optimizer) else "model"
        more: dict[str, Any] = {}
        if what == "model":
            self._lines.here("load")
            if self._scene.step and self._trains(thing):
                more = {"digest": digest(thing), "site": sites.line()}
        self._recorder.event("load", {"what": what, "missing": missing[:20], "unexpected": unexpected[:20], **more})
        self._recorder.tell("on_load", thing, keys, missing, unexpected)

    def _trains(self, module: Any) -> bool:
        """Whether most of what is trained belongs to this module."""
        own = {id(p) for p in module.parameters()}
        params = self._scene.params
        return 2 * sum(p.numel() for p in params if id(p) in own) > sum(p.numel() for p in params)

    def seeded(self, what: str, value: Any) -> None:
        """A seed was set."""
        self._recorder.tell("on_seed", what, value)

    def compiles(self) -> None:
        """torch.compile was called."""
        self._scene.compiled = True
        self._scene.fact("perf.compiled", True)
        for signal in ("act_rms/module", "dead_fraction/module", "attn_entropy/module", "bn_mean_gap/module"):
            self._scene.blind(signal, "the model is compiled: modules are left alone so that graphs stay as they are")

    def scored(self, distribution: Any) -> None:
        """log_prob of a distribution of a kind that is sampled from as often."""
        if torch.is_grad_enabled():
            self._recorder.tell("on_policy", distribution)

    def diverged(self, one: Any, two: Any) -> None:
        """kl_divergence was computed."""
        if torch.is_grad_enabled():
            self._recorder.tell("on_divergence", one, two)

    def dropped(self, p: Any) -> None:
        """F.dropout was called without `training=` and without gradients: in eval mode it should have been off."""
        models = self._stage.models
        if p and models and not any(m.training for m in models) and "dropout" not in self._lines.known:
            self._lines.here("dropout")
            self._recorder.event("eval_dropout", {"p": float(p), "site": self._lines.known["dropout"]})

    def nan_replaced(self, tensor: Any) -> None:
        """nan_to_num was called: say so when it hides something in the loss, a gradient or, as NaN, inside the model.

        Inputs are the user's business, and so are infinities of a mask.
        """
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            return
        if self._stage.patches.modules.depth:
            new = self._scene.full and self._masked != self._scene.step  # steps are counted, not calls
            if new and tensor.grad_fn is not None and peek(tensor.detach().isnan().any().float()):
                self._masked = self._scene.step
                self._hidden("inside")
            return
        loss = tensor.grad_fn is not None and (tensor.numel() == 1 or (self._scene.full and tensor.dim() == 1))
        if not loss and not (self._scene.full and any(p.grad is tensor for p in self._scene.params)):
            return
        whole = peek(tensor.detach().sum() if tensor.numel() > 1 else tensor)
        if whole is not None and not math.isfinite(whole):
            self._hidden("nan_to_num")

    def _hidden(self, how: str) -> None:
        self._recorder.event("nan_hidden", {"how": how, "site": sites.site()})

    def meets(self, optimizer: Any) -> None:
        """An optimizer that has not stepped before: whoever had its place in memory is gone."""
        key = id(optimizer)
        self.owners.pop(key, None)
        if key in self._steps:
            self._steps = {(-len(self._steps) if k == key else k): n for k, n in self._steps.items()}

    def on_metric(self, name: str, value: Any) -> None:
        """The user logged a metric."""
        phase, parts = self._scene.phase, name.split("/", 2)
        if len(parts) == 3 and parts[0] == "metric":  # whoever logged it knows the phase
            _, phase, name = parts
        kind = f"metric/{phase if phase in ('train', 'val', 'test') else 'other'}/{name}"
        if name in ("probe_loss", "probe/loss"):  # dx.log(probe_loss=…): of the task that the model came from
            kind = "probe/loss"
        if isinstance(value, Tensor):
            known = peek(value)
            value = value.detach().clone() if known is None else known
        self._recorder.take({kind: value if isinstance(value, Tensor) else float(value)}, "loop")
        self._recorder.tell("on_metric", name, value, phase)

    def on_columns(self, columns: Any) -> None:
        """The user gave columns for the samples of the latest batch."""
        if isinstance(columns, Mapping):
            self._recorder.tell("on_columns", columns)

    def group_names(self, n: int) -> tuple[str, ...]:
        if len(self._names) != n:
            self._names = tuple(f"group{i}" for i in range(n))
        return self._names

    def _facts(self) -> dict[str, Any]:
        wall = self._totals["wall"] or 1.0
        shares = {k: self._totals[k] / wall for k in ("data", "eval", "checkpoint", "traindx")}
        out: dict[str, Any] = {
            "optimizer.steps": list(self._steps.values()),
            "amp.autocast": self._autocast,
            "schedule.before_optimizer": self._early_schedule,
            "schedule.objects": len(self._objects),
            "loop.unused_backwards": self._unused(),
            "perf.shares": {"train": max(1.0 - sum(shares.values()), 0.0), **shares},
        }
        if found := {what: where for what, where in self._lines.known.items() if where}:
            out["code.sites"] = found
        if self._asleep is not None:
            out["model.eval_in_training"] = sorted(self._asleep)[:50]
        return out

    def _unused(self) -> int:
        """How often the line that trains went backward after the latest step of any optimizer."""
        since = self.backwards - max((o.backwards for o in self.owners.values()), default=self.backwards)
        return min(since, sum(m.site == self._site for m in self._stage.step.losses))


def _first_graded(optimizer: Any) -> Tensor | None:
    for group in optimizer.param_groups:
        for param in group["params"]:
            if param.grad is not None:
                return param
    return None


def _grad_state(ref: weakref.ref[Tensor] | None) -> tuple[int, int] | None:
    param = ref() if ref is not None else None
    grad = None if param is None else param.grad
    return None if grad is None else (id(grad), grad._version)


def _undivided(losses: list[Micro]) -> bool:
    """Several micro-batches through one loss call, none of them divided by their number."""
    return len(losses) > 1 and _of_one(losses) and all(m.parts == 1.0 for m in losses)


def _of_one(losses: list[Micro]) -> bool:
    """They went through one loss call and one backward."""
    first = losses[0]
    return bool(first.call) and all(m.site == first.site and m.call == first.call for m in losses)
