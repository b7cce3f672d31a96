"""fastai: `Learner(..., cbs=Traindx())`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Unpack

from traindx.errors import EnvironmentFault
from traindx.integrations.fit import Fit, Options

if importlib.util.find_spec("fastai") is None:
    raise EnvironmentFault("this needs fastai: pip install fastai")
_Callback: Any = importlib.import_module("fastai.callback.core").Callback


class Traindx(_Callback, Fit):
    """Observes `learn.fit`; afterwards `.diagnosis` has the result, and `.dx.run()` has the record.

    Takes the options of `traindx.watch`.
    """

    order = 90  # after those that change the loss or the gradients

    def __init__(self, **options: Unpack[Options]) -> None:
        _Callback.__init__(self)
        Fit.__init__(self, **options)
        self._validation: Any = None

    def before_fit(self) -> None:
        # the rate finder and predictions are fits, too, but nobody wants a diagnosis of them
        if not hasattr(self.learn, "lr_finder") and not hasattr(self.learn, "gather_preds"):
            self.begin(self.learn.model)

    def before_validate(self) -> None:
        if self.dx is not None and self.dx.open:
            self._validation = self.dx.validation()
            self._validation.__enter__()

    def after_validate(self) -> None:
        if self._validation is not None:
            self._validation.__exit__(None, None, None)
            self._validation = None

    def after_epoch(self) -> None:
        names = [m.name for m in self.learn.recorder.metrics]
        values = self.learn.recorder.log[-len(names) :] if names else []
        self.tell("val", {name: value for name, value in zip(names, values) if isinstance(value, float | int)})

    def after_fit(self) -> None:
        self.close()
