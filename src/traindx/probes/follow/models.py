"""Who is on stage: models, optimizers, parameters; found by watching, or given."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from traindx.probes.drive.plan import FIRST
from traindx.probes.drive.recorder import Recorder
from traindx.probes.follow.step import Step
from traindx.probes.read.common.names import unwrapped
from traindx.probes.read.common.sites import Lines

if TYPE_CHECKING:
    from traindx.probes.drive.patches import Patches

MOST_REBUILT = 10  # times that a model which changed while it trained is looked at anew
SEARCH_STEPS = 3  # updates during which every outermost module is looked at; afterwards the known models only
_DROPPING = ("Dropout", "BatchNorm", "InstanceNorm", "SyncBatchNorm", "RReLU")


class Stage:
    """Shared by the parts of the story: the cast, the step on the way, and the recorder."""

    def __init__(self, recorder: Recorder, patches: Patches, models: list[nn.Module], optimizers: list[Any]) -> None:
        self.recorder, self.patches = recorder, patches
        self.scene = recorder.scene
        self.given_models, self.given_optimizers = bool(models), list(optimizers)
        self._models: list[weakref.ref[nn.Module]] = [weakref.ref(m) for m in models]
        self.optimizer_refs: list[weakref.ref[Any]] = []
        self.step = Step()
        self.lines = Lines()
        self.last_end: float | None = None  # when the last update was made, or the first thing was seen
        self.batch_norm = False
        self._built: int | None = None  # optimizers so far; None: nobody has counted those that were made before we came
        self.latest: weakref.ref[Any] | None = None  # the optimizer that stepped last
        self._held: tuple[weakref.ref[Any], ...] = ()  # parameters of the primary optimizer
        self._shapes: list[tuple[int, ...]] = []  # their shapes, sorted
        self._trained: list[weakref.ref[Any]] = []  # parameters of the primary optimizers before it
        self.outermost: dict[int, weakref.ref[nn.Module]] = {}
        self.kinds: set[type] = set()  # classes of the modules that were called outermost and led to a loss
        self._noted: list[weakref.ref[nn.Module]] = []
        self._mode_modules: list[tuple[str, weakref.ref[nn.Module]]] = []
        self._build: list[tuple[int, bool]] = []  # the models' parameters, and whether they learn, when last looked up
        self._checked = self._rebuilt = 0
        self._dozes = False  # dropout or normalisation was in eval mode when the latest pass of training began
        if models:
            self.refresh()

    def builds(self) -> None:
        """An optimizer was made."""
        self._built = (self._built or 0) + 1

    @property
    def optimizers_built(self) -> int:
        """How many optimizers the program has made; those from before we came are looked for only where no other is known."""
        if self._built is None:
            self._built = sum(issubclass(type(thing), Optimizer) for thing in gc.get_objects())
        return self._built

    @property
    def models(self) -> list[nn.Module]:
        """The models that are still alive."""
        return [m for r in self._models if (m := r()) is not None]

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers that have stepped and are still alive, the primary one first."""
        return [o for r in self.optimizer_refs if (o := r()) is not None]

    def knows(self, optimizer: Any) -> bool:
        """Whether it has stepped before."""
        return self.primary is optimizer or any(r() is optimizer for r in self.optimizer_refs)

    @property
    def primary(self) -> Any:
        """The optimizer whose updates are the steps."""
        for ref in self.optimizer_refs:
            if (optimizer := ref()) is not None:
                return optimizer
        return None

    def trains(self, key: int) -> bool:
        """Whether the model with this id is what the last update was about (a teacher that was trained once is not)."""
        model = next((m for m in self.models if id(m) == key), None)
        latest = self.latest() if self.latest is not None else None
        return model is not None and (latest is None or _holds(model, latest))

    # -- finding models

    def note(self, module: nn.Module) -> None:
        """Its parameters were asked for: likely a whole model."""
        if self.recorder.started and len(self._noted) > 64:
            return
        if not any(r() is module for r in self._noted):
            self._noted.append(weakref.ref(module))

    def saw(self, module: nn.Module) -> None:
        """It was called as an outermost module."""
        if id(module) not in self.outermost or self.outermost[id(module)]() is not module:
            self.outermost[id(module)] = weakref.ref(module)

    def led_to_a_loss(self, key: int) -> None:
        """The outermost module with this id fed a loss: it (or the whole it is part of) is a model from now on."""
        ref = self.outermost.get(key)
        module = ref() if ref is not None else None
        self.kinds.add(type(module))
        if self.given_models or any((m := r()) is not None and id(m) == key for r in self._models):
            return
        if module is None or any(part is module for m in self.models for part in m.modules()):
            return
        wholes = [m for r in self._noted if (m := r()) is not None and any(part is module for part in m.modules())]
        model = max(wholes, key=lambda m: sum(1 for _ in m.modules()), default=module)
        inner = {id(part) for part in model.modules()}
        self._models = [weakref.ref(m) for m in [*(m for m in self.models if id(m) not in inner), model]]
        self.refresh()

    def stepped_first(self, optimizer: Any) -> bool:
        """An optimizer's first step; it takes over when the primary one is gone. True when another training begins."""
        other = bool(self.optimizer_refs) and not self.optimizers and self._retrain(optimizer)
        self.optimizer_refs = [*(weakref.ref(o) for o in self.optimizers), weakref.ref(optimizer)]
        if not self._held:
            self._held, self._shapes = _held(optimizer), _shapes(optimizer)
        self.refresh()
        return other

    def same_parameters(self, optimizer: Any) -> bool:
        """Whether it goes on with what the primary optimizer has trained."""
        return {id(r()) for r in self._held} == {id(r()) for r in _held(optimizer)}

    def promote(self, optimizer: Any) -> bool:
        """The primary optimizer has stopped for good: this one's updates are the steps. True: another training begins."""
        self.optimizer_refs = [weakref.ref(optimizer), *(weakref.ref(o) for o in self.optimizers if o is not optimizer)]
        other = self._retrain(optimizer)
        self.refresh()
        return other

    def _retrain(self, optimizer: Any) -> bool:
        """An optimizer takes over; when it has other parameters, only the models that hold those are on stage."""
        before, self._held = self._held, _held(optimizer)
        same = {id(p) for r in before if (p := r()) is not None} == {id(r()) for r in self._held}
        self._trained += () if same else before
        alike, self._shapes = self._shapes == (now := _shapes(optimizer)), now
        told = {"same_parameters": same, "alike": alike, "carried": _carried(self._trained, self._held)}
        if not same and not self.given_models:
            self._models = [weakref.ref(m) for m in self.models if _holds(m, optimizer)]
        self.recorder.event("retrained", {"previous_last_step": self.scene.step - 1, **told})
        if not same:
            self.recorder.plan.alarm(self.scene.step, FIRST // 2)  # the first steps of a training say most about it
        return not same

    def refresh(self) -> None:
        """Look up parameters and names again."""
        self.recorder.refresh(self.models, self.optimizers)
        self._build = self._as_built()
        self.look()

    def by_hand(self, leaves: list[Any]) -> None:
        """These tensors are trained without an optimizer."""
        known = {id(p) for p in self.scene.params} if self.models else set()
        if not all(id(p) in known for p in leaves):
            self.recorder.cast(leaves)

    def passed(self) -> None:
        """A pass is over (an epoch, an evaluation): are the parameters still the same, and do the same ones learn?"""
        step = self.scene.step
        if not self.recorder.started or step - self._checked < FIRST or self._rebuilt >= MOST_REBUILT:
            return
        self._checked = step
        if self._build != self._as_built():
            self._rebuilt += 1
            self.recorder.plan.insist(self.scene.step)
            self.refresh()

    def begins_pass(self) -> None:
        """A pass of training begins: has a part of the model gone to sleep since the last one?"""
        asleep = bool(self._mode_modules) and all(m.training for m in self.models) and bool(self.asleep())
        if asleep and not self._dozes and self.recorder.started and self._rebuilt < MOST_REBUILT:
            self._rebuilt += 1
            self.recorder.plan.insist(self.scene.step, 6)  # as many as WIRE005 asks for
        self._dozes = asleep

    def _as_built(self) -> list[tuple[int, bool]]:
        return [(id(p), p.requires_grad) for m in self.models for p in unwrapped(m).parameters()]

    def look(self) -> None:
        """Find what matters about the modules: normalisation, dropout."""
        every = [(name, m) for model in self.models for name, m in unwrapped(model).named_modules()]
        self._mode_modules = [(name, weakref.ref(m)) for name, m in every if type(m).__name__.startswith(_DROPPING)]
        self.batch_norm = any("BatchNorm" in type(m).__name__ for _, m in every)

    def asleep(self) -> list[str]:
        """Names of dropout and batch-normalisation modules that are in eval mode."""
        return [name for name, r in self._mode_modules if (m := r()) is not None and not m.training]

    def minds_mode(self, models: Collection[int]) -> bool:
        """Whether a layer of the models with these ids behaves differently in training mode; of an unknown one it may."""
        known = [unwrapped(m) for m in self.models if id(m) in models]
        return len(known) < len(models) or any(type(m).__name__.startswith(_DROPPING) for k in known for m in k.modules())

    def set_view(self) -> None:
        """How closely modules are looked at during the next forward."""
        modules = self.patches.modules
        if modules is None or modules.stopped or len(self.patches.observers) > 1:
            return
        if self.scene.full or self.scene.step < SEARCH_STEPS or not self.kinds:
            modules.widen()
        else:
            modules.narrow(self.kinds)


def _held(optimizer: Any) -> tuple[weakref.ref[Any], ...]:
    return tuple(weakref.ref(p) for group in optimizer.param_groups for p in group["params"])


def _shapes(optimizer: Any) -> list[tuple[int, ...]]:
    return sorted(tuple(p.shape) for group in optimizer.param_groups for p in group["params"] if p.requires_grad)


def _carried(trained: list[weakref.ref[Any]], held: tuple[weakref.ref[Any], ...]) -> float:
    """Share of the numbers an optimizer holds that an earlier training has worked on."""
    old = {id(p) for r in trained if (p := r()) is not None}
    now = [p for r in held if (p := r()) is not None]
    return sum(p.numel() for p in now if id(p) in old) / max(1, sum(p.numel() for p in now))


def _holds(model: nn.Module, optimizer: Any) -> bool:
    own = {id(p) for p in model.parameters()}
    return any(id(p) in own for group in optimizer.param_groups for p in group["params"])
