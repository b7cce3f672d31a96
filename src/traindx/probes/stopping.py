"""Early stopping that knows the noise: has the validation loss risen, or does it only shake? (CATALOGUE 2.6)"""

from __future__ import annotations

import numpy as np

from traindx.run import Run


def should_stop(run: Run, *, rises: float = 4.0, share: float = 0.01, evaluations: int = 3) -> bool:
    """True when the smoothed validation loss is above its minimum by more than `rises` of its own noise and `share` of its
    level at each of the last `evaluations`, while the training loss went on falling.

    >>> from traindx.run import Run
    >>> should_stop(Run.of({"loss/val": [1.0, 0.8, 0.7, 0.7, 0.7]}))
    False
    """
    val = run.series("loss/val").finite()
    if len(val) < evaluations + 5:
        return False
    noise = 1.4826 * float(np.median(np.abs(np.diff(val.values, 2)))) / np.sqrt(6)
    smooth = np.convolve(val.values, np.ones(3) / 3, mode="valid")
    best = int(np.argmin(smooth))
    rise = smooth[-evaluations:] - smooth[best]
    if len(smooth) - best <= evaluations:
        return False
    limit = max(rises * noise * np.sqrt(2 / 3), share * abs(smooth[best]))
    train = run.series("loss/train").finite()
    since = train.between(lo=float(val.steps[best + 1])).values
    before = train.between(hi=float(val.steps[best + 1])).values
    falling = not len(since) or not len(before) or float(np.median(since[-20:])) < float(np.median(before[-20:]))
    return bool(np.all(rise > limit)) and falling
