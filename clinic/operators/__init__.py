"""Fault operators: one fault each, at several levels, as a readable patch of a base program's text.

Levels marked quiet lie below the threshold or are the harmless look-alike of the fault: the operator's codes must not be
found in them. Where an operator's idiom is not in a base, it does not apply there.
"""

from __future__ import annotations

from clinic.operators import data, evaluation, loop, numerics, regimes, steps, weights

OPERATORS = (
    *steps.TABLE,
    *weights.TABLE,
    *numerics.TABLE,
    *loop.TABLE,
    *data.TABLE,
    *evaluation.TABLE,
    *regimes.TABLE,
)

__all__ = ["OPERATORS"]
