"""Small numbers gathered on their device over many steps, read in one go when waiting is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_FOLD_AT = 64  # rows kept before they are folded into one: bounds memory, costs one reduction in 64


class Tally:
    """Running minima, maxima and sums by name; `add` never waits, `read` does.

    >>> tally = Tally(lows=["x"], highs=["y"], sums=["n"])
    >>> tally.add({"x": torch.tensor(1.0), "y": torch.tensor(2.0), "n": torch.tensor(3.0)})
    >>> tally.add({"x": torch.tensor(0.5), "y": torch.tensor(1.0), "n": torch.tensor(3.0)})
    >>> tally.read()
    {'x': 0.5, 'y': 2.0, 'n': 6.0}
    """

    def __init__(self, *, lows: Sequence[str] = (), highs: Sequence[str] = (), sums: Sequence[str] = ()) -> None:
        self._names = (*lows, *highs, *sums)
        self._lows, self._highs = len(lows), len(highs)
        self._rows: dict[torch.device, list[Tensor]] = {}
        self.added = 0

    def add(self, values: Mapping[str, Tensor]) -> None:
        """One row; a name that is missing counts as neither low, high nor anything."""
        if not values:
            return
        device = next(iter(values.values())).device
        blank = self._blank(device)
        row = torch.stack(
            [values[n].to(torch.float64).reshape(()) if n in values else blank[i] for i, n in enumerate(self._names)]
        )
        kept = self._rows.setdefault(device, [])
        kept.append(row)
        self.added += 1
        if len(kept) >= _FOLD_AT:
            kept[:] = [self._folded(torch.stack(kept))]

    def absorb(self, other: Tally) -> None:
        """Take over the rows of a tally of the same names."""
        for device, rows in other._rows.items():
            kept = self._rows.setdefault(device, [])
            kept += rows
            if len(kept) >= _FOLD_AT:
                kept[:] = [self._folded(torch.stack(kept))]
        self.added += other.added

    def _blank(self, device: torch.device) -> Tensor:
        blank = torch.zeros(len(self._names), dtype=torch.float64, device=device)
        blank[: self._lows] = float("inf")
        blank[self._lows : self._lows + self._highs] = float("-inf")
        return blank

    def _folded(self, rows: Tensor) -> Tensor:
        lows, highs = self._lows, self._lows + self._highs
        return torch.cat([rows[:, :lows].amin(0), rows[:, lows:highs].amax(0), rows[:, highs:].sum(0)])

    def read(self) -> dict[str, float]:
        """Everything so far as floats; waits for the device. Names nothing was added for are left out."""
        tables = [torch.stack(rows).cpu() for rows in self._rows.values() if rows]
        if not tables:
            return {}
        whole = self._folded(torch.cat(tables)).tolist()
        ends = self._lows + self._highs
        return {n: v for i, (n, v) in enumerate(zip(self._names, whole, strict=True)) if i >= ends or abs(v) != float("inf")}


def with_withdrawals(found: dict[str, Any], said: set[str]) -> dict[str, Any]:
    """Facts, with None for those that were stated earlier and hold no longer; `said` is brought up to date.

    >>> said = {"a"}
    >>> with_withdrawals({"b": 1}, said), sorted(said)
    ({'b': 1, 'a': None}, ['a', 'b'])
    """
    gone = dict.fromkeys(sorted(said - found.keys()))
    said.update(found)
    return found | gone
