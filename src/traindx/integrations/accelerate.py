"""accelerate: `Accelerator(log_with=Traindx())`, then `accelerator.init_trackers("name")` as for any tracker."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, Unpack

from traindx.errors import EnvironmentFault
from traindx.integrations.fit import Fit, Options

if importlib.util.find_spec("accelerate") is None:
    raise EnvironmentFault("this needs accelerate: pip install accelerate")
_tracking: Any = importlib.import_module("accelerate.tracking")


class Traindx(_tracking.GeneralTracker, Fit):
    """Observes from `init_trackers` to `end_training`; afterwards `.diagnosis` has the result.

    Takes the options of `traindx.watch`. What is logged with `accelerator.log` is recorded; losses, gradients and the rest are
    seen without being logged.
    """

    name = "traindx"
    requires_logging_directory = False
    main_process_only = False  # every rank writes a record of its own

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__()
        Fit.__init__(self, **options)

    @property
    def tracker(self) -> Any:
        """The watch."""
        return self.dx

    def start(self) -> None:
        """The training is about to begin."""
        self.begin()

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Keep the hyper-parameters that are numbers, words or truth values."""
        if self.dx is None:
            self.begin()  # accelerate before 1.15 does not call start()
        recorder = getattr(self.dx, "_recorder", None)
        if recorder is not None:
            plain = {k: v for k, v in values.items() if isinstance(v, int | float | str | bool)}
            recorder.scene.fact("hparams", plain)

    def log(self, values: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        """Record what was logged; names that say so belong to validation."""
        for name, value in values.items():
            self.tell("val" if "val" in name or "eval" in name else "train", {name: value})

    def finish(self) -> None:
        """The training is over."""
        self.close()
