"""Early stopping that knows the noise: has the validation loss risen, or does it only shake? (CATALOGUE 2.6)"""

from __future__ import annotations

import numpy as np

from traindx.run import Run
from traindx.stats import overfit_na

NEAR = 20  # training losses before an evaluation that stand for the training loss at it


def should_stop(run: Run) -> bool:
    """True once the validation loss has risen beyond its own noise while the training loss went on falling.

    >>> should_stop(Run.of({"loss/val": [1.0, 0.8, 0.7, 0.7, 0.7]}))
    False
    """
    val, train = run.series("loss/val").finite(), run.series("loss/train").finite()
    if len(val) < 8 or not len(train):
        return False
    ends = np.searchsorted(train.steps, val.steps, side="right")
    near = [float(np.median(train.values[max(end - NEAR, 0) : max(end, 1)])) for end in ends]
    negative = bool(run.fact("loss.may_be_negative")) or bool(np.min(val.values) < 0)
    return overfit_na(val.values, near, negative=negative).fired is not None
