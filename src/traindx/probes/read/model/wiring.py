"""The model as it is wired: what is called, owned, reached by the loss, frozen, tied, adapted, loaded.

Ownership and reach are facts of identity (which tensors an optimizer holds, which leaves a loss graph ends in), so they
need no guessing from curves. Each is believed only after several updates, over all optimizers and all losses, because
adversarial and alternating loops show one half at a time.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traindx import innards
from traindx.measures import readable
from traindx.probe import TRAIN, VAL, Forward, LossCall, Probe, Scene
from traindx.probes.read.common import losses
from traindx.probes.read.common.graph import reach
from traindx.probes.read.common.losses import batch_size
from traindx.probes.read.common.names import unwrapped
from traindx.probes.read.common.sketch import few
from traindx.probes.read.common.special_ids import Vocabulary
from traindx.probes.read.common.tally import with_withdrawals
from traindx.probes.read.common.token_batches import ids_of
from traindx.probes.read.common.token_ids import stated_pad
from traindx.probes.read.model import anatomy
from traindx.probes.read.model.attention_masks import padding
from traindx.probes.read.model.between_modules import Passage

_WALKS = frozenset({0, 1, 2, 10, 19})  # updates whose losses are walked, then one in a thousand
_LATER = 1000
_TURNS = 3  # changes of the optimizer that steps: fewer are phases of a training, one after the other
_LEAST_WALKS = 3
_GRADED = frozenset({0, 1, 2, 3, 10, 19})  # updates at which gradients are looked for
_REGRADED = 40  # updates after other parameters came in which full steps look for gradients
_CALLED = 20  # CATALOGUE WIRE014: 0 calls in 20 steps
_PATIENCE = 200  # updates after which an optimizer that was built and never stepped owns nothing
_MOST_MODULES = 5_000
_LEARNED = 5  # updates after which weights that are as before were put back
_COMPARED = 8  # parameters that are held against what they were
_LIVE = (3, 5, 10, 20, 40)  # updates after which the living model is looked at, then each time the run grew by half


@dataclass(frozen=True)
class _Load:
    """A load of weights into a module."""

    module: weakref.ref[nn.Module]
    missing: list[str]
    unexpected: list[str]
    unloaded: float  # share of its weights
    step: int  # updates before it


class Outline(Probe):
    """`model.*`, ownership of parameters, and the regime facts that follow from them."""

    ordinary = ("on_backward", "before_step")

    def __init__(self) -> None:
        self.idle = False  # the order of the first steps is known
        self._static: dict[str, Any] = {}
        self._rows: list[dict[str, Any]] = []
        self._order: dict[str, int] = {}
        self._reached: set[int] = set()
        self._walked: dict[int, int] = {}  # parameter → walks while it was trainable
        self._walks = 0
        self._whole = True
        self._next_walk = _LATER
        self._graded: set[int] = set()
        self._pairs: set[tuple[int, int]] = set()
        self._pads: list[tuple[Tensor, Tensor | None]] = []
        self._first: dict[int, Tensor] = {}  # parameter → a few of its numbers before the first update
        self._tied: list[list[str]] = []
        self._of: list[weakref.ref[nn.Module]] = []  # the models they were seen in
        self._copies: list[tuple[str, str, Tensor, Tensor]] = []
        self._gains: tuple[list[str], Tensor | None, dict[str, Tensor]] = ([], None, {})
        self._frozen: list[str] = []
        self._frozen_modules: list[str] = []
        self._adapters: list[tuple[str, str]] = []
        self._hidden: dict[str, tuple[str, list[nn.Module]]] = {}
        self._built: list[weakref.ref[Any]] = []
        self._loads: list[_Load] = []
        self._first_names: set[str] = set()
        self._resumed = False
        self._steps: list[tuple[int, int]] = []  # (optimizer, backwards before its step), the first 64
        self._backwards = 0
        self._loss: Tensor | None = None  # the first mean over targets, whatever it is divided by before backward
        self._started = False
        self._away = False  # the weights were seen to be others than before the first update
        self._base = 0  # the update with which the training under way began
        self._again = False  # another training begins
        self._known: set[int] = set()  # optimizers whose parameters were looked at
        self._version = -1
        self._updates = 0
        self._next_live = _LIVE[0]
        self._regrade = 0  # until this update gradients are looked for again: there are other parameters
        self._live: dict[str, Any] = {}  # facts of the living model, as of the latest look
        self._left: list[tuple[str, int, Tensor | None, Tensor]] = []  # unowned: name, size, numbers before and now
        self._trainable = 0
        self._zero: dict[str, Tensor] = {}  # adapter → whether any of its entries is not zero
        self._named_weights: dict[int, tuple[str, tuple[int, ...]]] = {}
        self._tuned = False
        self._carried = False  # most of what is trained now was trained before, in the same process
        self._vocabulary = Vocabulary()
        self._frozen_since: dict[str, tuple[int, int]] = {}
        self._passage = Passage()
        self._said: set[str] = set()

    # -- before the first update

    def start(self, scene: Scene) -> None:
        self._started = True
        self._look(scene)
        waiting = {id(p) for r in self._built if (o := r()) is not None for g in o.param_groups for p in g["params"]}
        held = {id(p) for o in scene.optimizers for g in o.param_groups for p in g["params"]}
        later = waiting - held  # an optimizer that has not stepped yet: whether it trains them is seen when it does
        self._frozen = [n for n, p in zip(scene.names, scene.params) if not p.requires_grad and id(p) not in later]
        self._frozen_modules = anatomy.frozen_modules(scene.models) if self._frozen else []
        self._first_names = set(scene.names)
        if not scene.begun or scene.step > scene.begun:  # else they are trained already
            self._gains = anatomy.init_statistics(scene.names, scene.params)
        now, same = anatomy.tied_groups(scene.models), {id(m) for m in scene.models} & {id(m) for r in self._of if (m := r())}
        self._tied = now + [group for group in self._tied if same and group not in now]  # ties of the same model, before
        self._of = [weakref.ref(m) for m in scene.models]
        self._copies = anatomy.twins_by_value(scene.models)
        self._first = {id(p): few(p) for p in scene.params if p.requires_grad and _ordinary(p)}

    def changed(self, scene: Scene) -> None:
        self._version = -1
        self._regrade = scene.step + _REGRADED
        if self._again:
            self._again = False
            self._begin_again(scene)
        new = [n for n in scene.names if n not in self._first_names]
        if new:  # frozen when they are first seen: not "frozen later"
            fresh = set(new)
            self._first_names |= fresh
            self._frozen += [n for n, p in zip(scene.names, scene.params) if n in fresh and not p.requires_grad]
            self._frozen_modules = anatomy.frozen_modules(scene.models) if self._frozen else []

    def on_event(self, scene: Scene, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "epoch":
            self._as_before(scene)
        if kind == "retrained" and not data["same_parameters"]:
            self._again = True
            self._carried = data.get("carried", 0.0) >= 0.5

    def _begin_again(self, scene: Scene) -> None:
        """Another model, or other parameters of the same, are trained from now on: facts are theirs."""
        self._base, self._updates, self._next_live = scene.step, 0, _LIVE[0]
        self._next_walk = scene.step + _LATER
        self._walks, self._whole, self.idle = 0, True, False
        for seen in (self._order, self._reached, self._walked, self._graded, self._pairs, self._frozen_since, self._live):
            seen.clear()
        self._steps, self._pads, self._passage, self._loss = [], [], Passage(), None
        self._known.clear()
        self.start(scene)

    def _look(self, scene: Scene) -> None:
        """What can be seen without running: done again when the model has changed."""
        if not scene.models or self._version == scene.version:
            return
        self._version = scene.version
        self._static = anatomy.static_facts(scene.models) | anatomy.sizes(scene.names, scene.params)
        self._adapters = anatomy.adapters(scene.models)
        self._hidden = anatomy.unregistered(scene.models)
        self._rows = [
            {"name": name, "class": type(module).__name__, "params": sum(p.numel() for p in module.parameters())}
            | ({"inert": True} if _inert(module) else {})
            for _, (name, module) in zip(range(_MOST_MODULES), anatomy.modules(scene.models))
        ]

    def _as_before(self, scene: Scene) -> None:
        """Whether all weights that learn, and have learned, are what they were before the first update."""
        if scene.step - self._base < _LEARNED or not self._started:
            return
        held = [p for p in scene.params if p.requires_grad and id(p) in self._first and p.device.type == "cpu"][:_COMPARED]
        back = bool(held) and all(np.array_equal(np.asarray(few(p)), np.asarray(self._first[id(p)])) for p in held)
        if back and self._away:
            scene.event("weights_back")
        self._away = not back

    def on_built(self, scene: Scene, kind: str, thing: Any) -> None:
        if kind == "optimizer" and len(self._built) < 64:
            self._built.append(weakref.ref(thing))

    def on_load(self, scene: Scene, module: Any, keys: tuple[str, ...], missing: list[str], unexpected: list[str]) -> None:
        if isinstance(module, nn.Module):
            if len(self._loads) < 64:
                share = anatomy.loaded_share(module, missing)
                self._loads.append(_Load(weakref.ref(module), list(missing), list(unexpected), share, scene.step))
        elif not self._started and module is not None:
            self._resumed = True  # an optimizer's state came along: the same training continues

    # -- while it runs

    def before_forward(self, scene: Scene, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if scene.step - self._base <= 2:
            self._passage.given((*args, *kwargs.values()))

    def on_forward(self, scene: Scene, forward: Forward) -> None:
        if scene.step - self._base > 2 or forward.phase != TRAIN:
            return
        self._passage.samples = batch_size(forward) or 0
        if len(self._pads) < 4 and (ids := ids_of(forward)) is not None:
            tokens, mask = ids
            self._passage.width = int(tokens.shape[1])
            self._vocabulary.ask(forward.model, scene.loader)
            self._pads.append((tokens[:32].clone(), mask[:32].clone() if mask is not None else None))

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if name not in self._order:
            self._order[name] = len(self._order)
        if scene.step - self._base <= 2:
            self._passage.through(name, module, args, output)

    def on_attention(self, scene: Scene, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if kind == "fused" and scene.step - self._base <= 2:
            self._passage.masks.given(args, kwargs)

    def on_loss(self, scene: Scene, call: LossCall) -> None:
        if self._loss is None and call.grad and call.phase != VAL:
            said = losses.read(call)
            if said is not None and said.kind == "ce" and said.reduction == "mean" and readable(call.output):
                self._loss = call.output.detach().reshape(()).double()

    def on_backward(self, scene: Scene, loss: Tensor) -> None:
        self._backwards += 1
        if scene.step - self._base in _WALKS or (scene.full and scene.step >= self._next_walk):
            self._walk(scene, loss)
        self._passage.outputs.clear()

    def _walk(self, scene: Scene, loss: Tensor) -> None:
        if scene.step >= self._next_walk:
            self._next_walk = scene.step + _LATER
        seen = reach(loss.grad_fn, visit=self._passage.visit if scene.step - self._base < 3 else None)
        self._walks += 1
        self._whole = self._whole and seen.whole
        self._reached |= seen.variables
        self._pairs.update(seen.pairs)
        for p in scene.params:
            if p.requires_grad:
                self._walked[id(p)] = self._walked.get(id(p), 0) + 1
        self._passage.walked(seen.nodes)

    def before_step(self, scene: Scene, optimizer: Any) -> None:
        if len(self._steps) < 64:
            self._steps.append((id(optimizer), self._backwards))
        else:
            self.idle = True
        self._frozen_now(scene, optimizer)
        if scene.full:
            self._as_before(scene)
        if scene.step - self._base in _GRADED or (scene.full and scene.step < self._regrade):
            self._graded.update(id(p) for p in scene.params if p.grad is not None)
            for _, hidden in self._hidden.values():
                self._graded.update(id(p) for m in hidden for p in m.parameters() if p.grad is not None)

    def after_step(self, scene: Scene, optimizer: Any) -> None:
        if optimizer is not scene.optimizer:
            return
        self._updates = scene.step + 1 - self._base
        if self._updates >= self._next_live:
            self._next_live = next((n for n in _LIVE if n > self._updates), int(self._updates * 1.5))
            self._live = self._alive(scene)

    # -- what needs the living model: taken occasionally, because a program may drop it before it ends

    def _alive(self, scene: Scene) -> dict[str, Any]:
        self._look(scene)
        named = dict(_named(scene))
        ids = {id(p): n for n, p in named.items()}
        alive = self._reached | self._graded
        found: dict[str, Any] = {"model.tying_broken": self._broken(scene, named)}
        found |= self._ownership(scene, named, ids, alive)
        if self._walks >= _LEAST_WALKS and self._updates >= _LEAST_WALKS and self._whole:
            found |= self._lost(scene, named, alive)
        if self._updates >= _CALLED and self._order and not scene.compiled:
            found["model.never_called"] = self._never_called(scene, alive)
        found["model.frozen_later"] = {n: first for n, (first, looks) in self._frozen_since.items() if looks >= 3}
        if (loaded := self._loaded(scene)) is not None:
            found["model.loaded"] = loaded
        found["optimizer.disjoint"] = found["adversarial"] = alternating(self._steps, scene.optimizers)
        self._zero = {n: named[n].detach().any() for pair in self._adapters for n in pair if n in named}
        self._named_weights = {id(p): (n.rpartition(".")[0], tuple(p.shape)) for n, p in named.items()}
        self._tuned = self._tuned or any(_pretrained(m) for m in scene.models)
        return found

    def _broken(self, scene: Scene, named: Mapping[str, Tensor]) -> list[list[str]]:
        now = [set(g) for g in anatomy.tied_groups(scene.models)]
        there = {f"{n}.{own}" if n else own for n, m, _ in anatomy.walk(scene.models) for own, _ in anatomy.own_parameters(m)}
        broken = [g for g in self._tied if set(g) <= there and not any(set(g) <= other for other in now)]
        return broken + anatomy.declared_ties(scene.models)

    def _owners(self, scene: Scene) -> set[int]:
        """Ids of the parameters some optimizer holds."""
        waiting = [o for r in self._built if (o := r()) is not None] if self._updates < _PATIENCE else []
        return {id(p) for o in (*scene.optimizers, *waiting) for g in o.param_groups for p in g["params"]}

    def _ownership(self, scene: Scene, named: Mapping[str, Tensor], ids: Mapping[int, str], alive: set[int]) -> dict[str, Any]:
        if not scene.optimizers:
            return {}
        owned = self._owners(scene)
        turns = sum(a[0] != b[0] for a, b in itertools.pairwise(self._steps))
        found = anatomy.groups_of(scene.optimizers, ids, together=turns >= _TURNS)
        left = [p for p in named.values() if p.requires_grad and id(p) not in owned and id(p) in self._graded and _ordinary(p)]
        self._left = [(ids[id(p)], p.numel(), self._first.get(id(p)), few(p)) for p in left]
        self._trainable = sum(p.numel() for p in named.values() if p.requires_grad)
        stepped = [p for o in scene.optimizers for g in o.param_groups for p in g["params"]]
        found["model.foreign_params"] = sum(id(p) not in ids and id(p) not in alive for p in stepped)
        return found | {"model.unregistered": self._unregistered(owned)}

    def _unregistered(self, owned: set[int]) -> dict[str, Any]:
        found = {}
        for attribute, (kind, hidden) in self._hidden.items():
            params = [p for m in hidden for p in m.parameters()]
            if any(id(p) in self._graded for p in params):  # a teacher kept out of sight on purpose gets no gradient
                found[attribute] = {
                    "class": kind,
                    "count": len(hidden),
                    "params": sum(p.numel() for p in params),
                    "in_optimizer": all(id(p) in owned for p in params if p.requires_grad),
                }
        return found

    def _lost(self, scene: Scene, named: Mapping[str, Tensor], alive: set[int]) -> dict[str, Any]:
        owned = self._owners(scene)
        walked = {i for i, n in self._walked.items() if n >= _LEAST_WALKS}
        lost = [n for n, p in named.items() if id(p) in owned and id(p) in walked and id(p) not in alive]
        found: dict[str, Any] = {"model.unreachable": lost}
        if lost and (boundary := self._passage.boundary or self._front(scene, set(lost))):
            found["model.boundary"] = boundary
        return found

    def _front(self, scene: Scene, lost: set[str]) -> str | None:
        """The last lost module, when the first layers that are called are lost and all later ones are reached."""
        called = sorted(
            (self._order[name], name, all(f"{name}.{own}" in lost for own, _ in anatomy.own_parameters(module)))
            for name, module in anatomy.modules(scene.models)
            if name in self._order and any(p.requires_grad for _, p in anatomy.own_parameters(module))
        )
        gone = [dead for _, _, dead in called]
        count = sum(gone)
        return called[count - 1][1] if 0 < count < len(called) and all(gone[:count]) else None

    def _never_called(self, scene: Scene, alive: set[int]) -> list[str]:
        idle: list[str] = []
        for name, module in anatomy.modules(scene.models):
            own = [p for _, p in anatomy.own_parameters(module) if p.requires_grad]
            if own and name not in self._order and not any(id(p) in alive for p in own):
                idle.append(name)
        return idle

    def _frozen_now(self, scene: Scene, optimizer: Any) -> None:
        """At the update of the optimizer that holds them: which parameters are frozen, from the first on or since when."""
        if not scene.full or len(self._frozen_since) > 10_000:
            return
        first = id(optimizer) not in self._known
        self._known.add(id(optimizer))
        params, names = scene.owned(optimizer)
        frozen = set(self._frozen)
        for name, param in zip(names, params):
            if param.requires_grad:
                self._frozen_since.pop(name, None)
            elif name not in frozen:
                if first and len(scene.optimizers) > 1:
                    self._frozen.append(name)
                    continue
                since, looks = self._frozen_since.get(name, (scene.step, 0))
                self._frozen_since[name] = (since, looks + 1)

    def _loaded(self, scene: Scene) -> dict[str, Any] | None:
        """The last load into each module of the model, before the first update."""
        inside = {id(m) for model in scene.models for m in model.modules()} | {id(m) for m in scene.models}
        last = {id(m): load for load in self._loads if (m := load.module()) is not None and load.step <= self._base}
        last = {key: load for key, load in last.items() if key in inside}
        if not last:
            return None
        return {
            "missing": [k for load in last.values() for k in load.missing][:200],
            "unexpected": [k for load in last.values() for k in load.unexpected][:200],
            "unloaded_share": max(load.unloaded for load in last.values()),
        }

    # -- facts

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        if scene.models and self._started:
            self._live = self._alive(scene)
        elif scene.models:
            self._look(scene)
        if not self._static:
            return {}
        found = self._static | {"model.outline": self._outline()} | self._live
        if self._started:
            found |= self._as_built() | self._regime(scene, found)
        return with_withdrawals(found, self._said)

    def _outline(self) -> list[dict[str, Any]]:
        rows = [{**row, "order": self._order.get(row["name"])} for row in self._rows]
        return sorted(rows, key=lambda r: math.inf if r["order"] is None else r["order"])

    def _as_built(self) -> dict[str, Any]:
        """What was read before the first update, and what of the living model had to wait for its numbers."""
        names, gains, twins = self._gains
        found: dict[str, Any] = {"model.frozen": self._frozen, "model.frozen_modules": self._frozen_modules}
        if gains is not None:
            found["model.init_gain"] = dict(zip(names, [float(g) for g in gains.cpu()]))
            found["model.twin_rows"] = {n: s for n, t in twins.items() if (s := float(t)) > 0}
        found["model.tied"] = self._tied
        copies = [[a, b] for a, b, x, y in self._copies if torch.equal(x.cpu(), y.cpu())]
        found["model.tying_broken"] = self._live.get("model.tying_broken", []) + copies
        if self._adapters:
            found["model.adapters"] = [n for pair in self._adapters for n in pair]
            found["model.adapter_b_zero"] = [n for n, moved in self._zero.items() if not bool(moved)]
        left = [(n, size) for n, size, before, now in self._left if before is None or torch.equal(before.cpu(), now.cpu())]
        if "model.foreign_params" in self._live:
            found["model.unowned"] = [n for n, _ in left]
            found["model.unowned_share"] = sum(s for _, s in left) / self._trainable if self._trainable else 0.0
        if self._walks >= _LEAST_WALKS:
            found["model.linear_pairs"] = self._linear_pairs()
            found["model.batch_softmax"] = sorted(self._passage.mixed)
        if self._passage.scrambled:
            found["model.scrambled"] = self._passage.scrambled
        if self._passage.time_first:
            found["model.time_first"] = {n: list(sizes) for n, sizes in self._passage.time_first.items()}
        if self._passage.width > 1:
            found["model.condensed"] = self._passage.condensed
        pooling = self._passage.pooling
        if pooling.bare or pooling.masked:
            found["model.pooling"] = {"bare": pooling.bare, "masked": pooling.masked}
        pad = stated_pad(self._vocabulary.stated(0), [t.cpu().long().numpy() for t, _ in self._pads])
        pads = [p for t, m in self._pads if (p := padding(t, m, pad)) is not None]
        return found | self._passage.masks.facts(pads, sure=pad is not None or all(m is not None for _, m in self._pads))

    def _linear_pairs(self) -> list[list[str]]:
        """Names of the layers; a narrow middle (LoRA, bottleneck) or several readers (q, k, v) are there on purpose."""
        known = self._named_weights
        readers = Counter(a for a, _ in self._pairs)
        found = []
        for a, b in self._pairs:
            if a in known and b in known and a != b and readers[a] == 1:
                (first, p), (second, q) = known[a], known[b]
                if p[0] > 1 and p[0] >= min(math.prod(p[1:]), q[0]):
                    found.append([first, second])
        return sorted(found)

    def _regime(self, scene: Scene, known: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"frozen_by_intent": bool(self._frozen_modules or (self._adapters and self._frozen))}
        tuned = self._finetuned(scene, known)
        if tuned is not None:
            found["finetune"] = tuned
        return found

    def _finetuned(self, scene: Scene, known: Mapping[str, Any]) -> bool | None:
        if self._adapters or self._tuned or self._carried or (known.get("model.loaded") and not self._resumed):
            return True
        kind, classes = scene.facts.get("loss.kind"), scene.facts.get("loss.classes") or 0
        if scene.facts.get("loss.target_unique") == 1:
            kind = None  # one answer for all: places in a queue of negatives, no classes to know beforehand
        if kind == "ce" and classes > 2 and self._loss is not None and float(self._loss) < 0.5 * math.log(classes):
            return True
        return False if self._built else None  # built before our eyes: a load would have been seen


def alternating(steps: list[tuple[int, int]], optimizers: list[Any]) -> bool:
    """Two or more optimizers with disjoint parameters that take turns, each after a backward of its own."""
    if len(optimizers) < 2:
        return False
    held = [{id(p) for g in o.param_groups for p in g["params"]} for o in optimizers]
    if any(a & b for i, a in enumerate(held) for b in held[i + 1 :]):
        return False
    turns = [(a, b) for a, b in itertools.pairwise(steps) if a[0] != b[0]]
    return len(turns) >= 4 and all(b[1] > a[1] for a, b in turns)


def _named(scene: Scene) -> list[tuple[str, Tensor]]:
    """The parameters of the models (not those only an optimizer holds), by name."""
    own = {id(p) for m in scene.models for p in unwrapped(m).parameters()}
    return [(n, p) for n, p in zip(scene.names, scene.params) if id(p) in own]


def _inert(module: nn.Module) -> bool:
    """A dropout that drops nothing, a normalisation without statistics: training and eval mode are the same to it."""
    if isinstance(module, innards.Dropout):
        return module.p == 0
    return isinstance(module, innards.NormBase) and module.running_mean is None


def _ordinary(param: Tensor) -> bool:
    return param.is_floating_point() and param.numel() > 0 and param.layout == torch.strided and param.device.type != "meta"


def _pretrained(model: nn.Module) -> bool:
    """A model that names where its weights came from."""
    name = getattr(getattr(unwrapped(model), "config", None), "_name_or_path", "")
    return isinstance(name, str) and bool(name)


PROBES = [Outline]
