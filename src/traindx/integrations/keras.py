"""Keras 3 on torch: `model.fit(..., callbacks=[Traindx()])` with KERAS_BACKEND=torch."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, Unpack

from traindx.errors import EnvironmentFault
from traindx.integrations.fit import Fit, Options

if importlib.util.find_spec("keras") is None:
    raise EnvironmentFault("this needs Keras 3: pip install keras")
_keras: Any = importlib.import_module("keras")
if _keras.backend.backend() != "torch":
    raise EnvironmentFault(f"Keras runs on {_keras.backend.backend()} here; traindx sees torch: set KERAS_BACKEND=torch")


class Traindx(_keras.callbacks.Callback, Fit):
    """Observes `model.fit`; afterwards `.diagnosis` has the result. Takes the options of `traindx.watch`."""

    def __init__(self, **options: Unpack[Options]) -> None:
        _keras.callbacks.Callback.__init__(self)
        Fit.__init__(self, **options)

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self.begin(self.model)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        logs = logs or {}
        self.tell("train", {k: v for k, v in logs.items() if not k.startswith("val_")})
        self.tell("val", {k.removeprefix("val_"): v for k, v in logs.items() if k.startswith("val_")})
        if "val_loss" in logs:
            self.tell_loss(logs["val_loss"])  # computed by operations of Keras, which no loss function of torch is part of

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self.close()
