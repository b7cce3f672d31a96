"""ignite: `Traindx(trainer, model, optimizer)` attaches itself to an engine."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Unpack

from traindx.errors import EnvironmentFault
from traindx.integrations.fit import Fit, Options

if importlib.util.find_spec("ignite") is None:
    raise EnvironmentFault("this needs ignite: pip install pytorch-ignite")
_Events: Any = importlib.import_module("ignite.engine").Events


class Traindx(Fit):
    """Observes the runs of `trainer`; afterwards `.diagnosis` has the result. Takes the options of `traindx.watch`.

    Engines given as `evaluators` are validations, and their metrics are recorded; others are recognised by what they do.
    """

    def __init__(self, trainer: Any, *models_and_optimizers: Any, evaluators: Any = (), **options: Unpack[Options]) -> None:
        super().__init__(**options)
        trainer.add_event_handler(_Events.STARTED, lambda engine: self.begin(*models_and_optimizers))
        trainer.add_event_handler(_Events.EPOCH_COMPLETED, lambda engine: self.tell("train", engine.state.metrics))
        trainer.add_event_handler(_Events.COMPLETED, lambda engine: self.close())
        trainer.add_event_handler(_Events.EXCEPTION_RAISED, self._failed)
        for evaluator in evaluators if isinstance(evaluators, list | tuple) else (evaluators,):
            evaluator.add_event_handler(_Events.STARTED, self._validation_begins)
            evaluator.add_event_handler(_Events.COMPLETED, self._validation_ends)

    def _validation_begins(self, engine: Any) -> None:
        if self.dx is not None and self.dx.open:
            self._validation = self.dx.validation()
            self._validation.__enter__()

    def _validation_ends(self, engine: Any) -> None:
        if self.dx is not None and self.dx.open:
            self._validation.__exit__(None, None, None)
            self.tell("val", engine.state.metrics)

    def _failed(self, engine: Any, error: BaseException) -> None:
        self.close(error)
        raise error  # whoever handles this event in ignite is expected to
