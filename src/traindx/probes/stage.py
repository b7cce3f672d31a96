"""Who is on stage: models, optimizers, parameters; found by watching, or given."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from torch import nn

from traindx.probes.names import unwrapped
from traindx.probes.recorder import Recorder
from traindx.probes.step import Step

if TYPE_CHECKING:
    from traindx.probes.attach import Patches

SEARCH_STEPS = 3  # updates during which every outermost module is looked at; afterwards the known models only
_DROPPING = ("Dropout", "BatchNorm", "InstanceNorm", "SyncBatchNorm", "RReLU")


class Stage:
    """Shared by the parts of the story: the cast, the step on the way, and the recorder."""

    def __init__(self, recorder: Recorder, patches: Patches, models: list[nn.Module], optimizers: list[Any]) -> None:
        self.recorder, self.patches = recorder, patches
        self.scene = recorder.scene
        self.given_models, self.given_optimizers = bool(models), list(optimizers)
        self.models: list[nn.Module] = models
        self.optimizers: list[Any] = []
        self.step = Step()
        self.last_end: float | None = None  # when the last update was made, or the first thing was seen
        self.batch_norm = False
        self.optimizers_built = 0
        self.schedulers_rebuilt = 0
        self._outermost: dict[int, weakref.ref[nn.Module]] = {}
        self._noted: list[weakref.ref[nn.Module]] = []
        self._mode_modules: list[nn.Module] = []
        if models:
            recorder.refresh(self.models, self.optimizers)
            self.look()

    # -- finding models

    def note(self, module: nn.Module) -> None:
        """Its parameters were asked for: likely a whole model."""
        if self.recorder.started and len(self._noted) > 64:
            return
        if not any(r() is module for r in self._noted):
            self._noted.append(weakref.ref(module))

    def saw(self, module: nn.Module) -> None:
        """It was called as an outermost module."""
        if id(module) not in self._outermost or self._outermost[id(module)]() is not module:
            self._outermost[id(module)] = weakref.ref(module)

    def led_to_a_loss(self, key: int) -> None:
        """The outermost module with this id fed a loss: it (or the whole it is part of) is a model from now on."""
        if any(id(m) == key for m in self.models) or self.given_models:
            return
        ref = self._outermost.get(key)
        module = ref() if ref is not None else None
        if module is None or any(part is module for m in self.models for part in m.modules()):
            return
        wholes = [m for r in self._noted if (m := r()) is not None and any(part is module for part in m.modules())]
        model = max(wholes, key=lambda m: sum(1 for _ in m.modules()), default=module)
        inner = {id(part) for part in model.modules()}
        self.models[:] = [m for m in self.models if id(m) not in inner] + [model]
        self.refresh()

    def stepped_first(self, optimizer: Any) -> None:
        """An optimizer's first step."""
        self.optimizers.append(optimizer)
        self.refresh()

    def refresh(self) -> None:
        """Look up parameters and names again."""
        self.recorder.refresh(list(self.models), list(self.optimizers))
        self.look()

    def by_hand(self, leaves: list[Any]) -> None:
        """These tensors are trained without an optimizer."""
        known = {id(p) for p in self.scene.params} if self.models else set()
        if not all(id(p) in known for p in leaves):
            self.recorder.cast(leaves)

    def look(self) -> None:
        """Find what matters about the modules: normalisation, dropout."""
        every = [m for model in self.models for m in unwrapped(model).modules()]
        self._mode_modules = [m for m in every if type(m).__name__.startswith(_DROPPING)]
        self.batch_norm = any("BatchNorm" in type(m).__name__ for m in every)

    def asleep(self) -> int:
        """Dropout and batch-normalisation modules in eval mode."""
        return sum(not m.training for m in self._mode_modules)

    def set_view(self) -> None:
        """How closely modules are looked at during the next forward."""
        modules = self.patches.modules
        if modules is None or modules.stopped or len(self.patches.observers) > 1:
            return
        if self.scene.full or self.scene.step < SEARCH_STEPS or not self.models:
            modules.widen()
        else:
            modules.narrow(self.models)
