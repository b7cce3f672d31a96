"""Makes sense of the order of calls: reports of the patched points become phases, steps, evaluations and loop facts."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from torch import nn

from traindx.probes.drive.recorder import Recorder
from traindx.probes.follow.loop import Loop
from traindx.probes.follow.models import Stage
from traindx.probes.follow.phases import Phases
from traindx.probes.follow.updates import Updates

if TYPE_CHECKING:
    from traindx.probes.drive.patches import Patches


class Follower:
    """The loop as it is being lived. `on` has the listeners by report; each is called under the recorder's guard."""

    def __init__(self, recorder: Recorder, patches: Patches, models: list[nn.Module], optimizers: list[Any]) -> None:
        self.stage = Stage(recorder, patches, models, optimizers)
        self.loop = Loop(self.stage)
        self.phases = Phases(self.stage, self.loop)
        self.updates = Updates(self.stage, self.phases, self.loop)
        parts = (self.phases, self.loop, self.updates)
        self.on: dict[str, Callable[..., None]] = {
            name: getattr(part, name)
            for part in parts
            for name, thing in vars(type(part)).items()
            if isfunction(thing) and not name.startswith("_")
        }
        self.on["finish"] = self.finish

    def finish(self) -> None:
        """The end of the program or of the watch."""
        self.updates.finish()
        self.phases.finish()
