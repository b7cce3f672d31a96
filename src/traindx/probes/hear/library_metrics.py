"""Metrics of scikit-learn, heard on the way: labels and predictions as they are handed over, whatever made them.

Only what the script has imported itself is patched; nothing is imported on our initiative.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from traindx.probes.hear.forward_backward import around
from traindx.probes.hear.imported import when_imported

if TYPE_CHECKING:
    from traindx.probes.drive.patches import Patches

_MODULE = "sklearn.metrics"
# what takes (labels, predictions) first; those with answers rather than scores or numbers give a table of right and wrong
_ANSWERS = (
    "accuracy_score", "balanced_accuracy_score", "f1_score", "precision_score", "recall_score", "classification_report",
    "confusion_matrix", "matthews_corrcoef", "cohen_kappa_score", "precision_recall_fscore_support", "jaccard_score",
)  # fmt: skip
_OTHERS = (
    "roc_auc_score", "average_precision_score", "log_loss", "r2_score", "mean_squared_error", "root_mean_squared_error",
    "mean_absolute_error", "ndcg_score",
)  # fmt: skip


def install(patches: Patches) -> None:
    """Patch the metrics when they are imported, now or later."""
    patches.on_undo(when_imported(_MODULE, partial(_tap, patches)))


def _tap(patches: Patches) -> None:
    module = sys.modules[_MODULE]
    if not patches.observers or (_MODULE, "") in patches.tapped:
        return
    patches.tapped.add((_MODULE, ""))
    for names, answers in ((_ANSWERS, True), (_OTHERS, False)):
        for name in names:
            if callable(getattr(module, name, None)):
                patches.replace(module, name, partial(around, after=partial(_heard, patches, answers)))


def _heard(patches: Patches, answers: bool, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = [*args[:2], *(kwargs[k] for k in ("y_true", "y_pred", "y_score") if k in kwargs)]
    if len(given) == 2 and all(hasattr(part, "__len__") for part in given):
        patches.report("metric_called", *given, answers)
