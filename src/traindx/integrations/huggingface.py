"""transformers: `Trainer(callbacks=[Traindx()])`, also for trainers built on it (TRL, sentence-transformers)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, Unpack

from traindx.errors import EnvironmentFault
from traindx.integrations.fit import Fit, Options

if importlib.util.find_spec("transformers") is None:
    raise EnvironmentFault("this needs transformers: pip install transformers accelerate")
_Callback: Any = importlib.import_module("transformers").TrainerCallback


class Traindx(_Callback, Fit):
    """Observes `Trainer.train`; afterwards `.diagnosis` has the result. Takes the options of `traindx.watch`.

    The loss is seen at every backward, NaN included, and gradients before they are clipped: the callbacks of transformers
    know neither, and its log hides NaN unless `logging_nan_inf_filter=False`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        Fit.__init__(self, **options)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any) -> None:
        inner = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it, and only the inner one really steps
        self.begin(model, inner)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        train = {k: v for k, v in (logs or {}).items() if not k.startswith("eval_")}  # on_evaluate brings the others
        if not control.should_training_stop or "train_runtime" not in train:  # the closing summary is no measurement
            self.tell("train", train)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any] | None = None, **_: Any) -> None:
        self.tell("val", metrics or {})

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.close()
