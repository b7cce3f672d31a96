"""skorch: `NeuralNetClassifier(..., callbacks=[("traindx", Traindx())])`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from traindx.errors import EnvironmentFault
from traindx.integrations.fit import Fit

if importlib.util.find_spec("skorch") is None:
    raise EnvironmentFault("this needs skorch: pip install skorch")
_Callback: Any = importlib.import_module("skorch.callbacks").Callback


class Traindx(_Callback, Fit):
    """Observes `net.fit`; afterwards `.diagnosis` has the result. `options` are those of `traindx.watch`.

    The arguments are kept as they are, as scikit-learn wants it of things that are cloned; nothing begins before the fit.
    """

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        self.options: Any = options
        self.dx, self.mirror, self.announce = None, None, False

    def _get_param_names(self) -> list[str]:
        return ["options"]  # what a clone is made of; the rest belongs to the fit

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        options, self.options = self.options, self.options or {}
        self.begin(net.module_, net.optimizer_)
        self.options = options

    def on_epoch_end(self, net: Any, **_: Any) -> None:
        row = {k: v for k, v in net.history[-1].items() if isinstance(v, float | int) and not isinstance(v, bool)}
        self.tell("val", {k: v for k, v in row.items() if k.startswith("valid")})
        self.tell("train", {k: v for k, v in row.items() if not k.startswith("valid") and k not in ("epoch", "dur")})

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        self.close()
