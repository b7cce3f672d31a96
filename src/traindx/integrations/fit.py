"""What every framework's callback shares: a watch that opens with the fit, and what it saw afterwards."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from traindx import api
from traindx.diagnosis import Diagnosis
from traindx.run import Run


class Fit:
    """A watch that lives as long as a fit; takes the options of `traindx.watch`."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.dx: Any = None  # the Watch of the last fit

    def begin(self, *models_and_optimizers: Any) -> None:
        """Observe from now on."""
        self.dx = dx = api.watch(*models_and_optimizers, **self.options)
        weakref.finalize(self, dx.close, "exception")  # a fit that raised never says that it ended

    def close(self, error: BaseException | None = None) -> None:
        """Stop observing and complete the record; closing twice does nothing."""
        if self.dx is not None:
            self.dx.__exit__(type(error), error, None)

    def tell(self, phase: str, metrics: Mapping[str, Any]) -> None:
        """Record what the framework logged in this phase (train, val); what is no number is left out."""
        if self.dx is not None:
            numbers = {k: v for k, v in metrics.items() if isinstance(v, int | float) or getattr(v, "numel", lambda: 0)() == 1}
            self.dx.log(**{f"metric/{phase}/{name}": value for name, value in numbers.items()})

    def run(self) -> Run:
        """What was recorded so far."""
        return self.dx.run() if self.dx is not None else Run()

    @property
    def diagnosis(self) -> Diagnosis:
        """What ails the fit so far."""
        return api.diagnose(self.run())
