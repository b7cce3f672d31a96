"""Numbers in Python with None or NaN where nothing was logged: a gap is no NaN of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import traindx

N = 200
RNG = np.random.default_rng(0)
LOSS = 2.3 * np.exp(-np.arange(N) / 60) + 0.2 + RNG.normal(0, 0.03, N)


def every(k: int, values: Any, gap: float | None) -> list[float | None]:
    return [float(v) if i % k == k - 1 else gap for i, v in enumerate(values)]


def alarms(numbers: Any) -> set[str]:
    return {f.code for f in traindx.diagnose(numbers).findings if f.severity.value != "info"}


@pytest.mark.parametrize("gap", [None, float("nan")])
@pytest.mark.parametrize("k", [2, 5, 10, 40])
def test_a_healthy_run_with_sparse_columns_stays_healthy(gap: float | None, k: int) -> None:
    full = LOSS.tolist()
    val, accuracy = every(k, LOSS + 0.05, gap), every(k, 1 - LOSS / 3, gap)
    records = [
        {"step": i, "train_loss": a, "val_loss": b, "val_acc": c} for i, (a, b, c) in enumerate(zip(full, val, accuracy))
    ]
    for numbers in (
        {"train_loss": full, "val_loss": val, "val_acc": accuracy},
        {"train_loss": every(k, LOSS, gap), "val_loss": val},
        {"train_loss": full, "grad_norm": every(k, 1 + 0.1 * RNG.random(N), gap)},
        records,
    ):
        assert not alarms(numbers) & {"NUMR001", "NUMR002", "LOSS001"}


def test_none_after_the_end_is_padding_and_nan_after_the_end_is_a_broken_run() -> None:
    full = LOSS.tolist()
    assert not alarms({"train_loss": full + [None] * 50})
    assert "NUMR001" in alarms({"train_loss": full + [float("nan")] * 50})
    assert "NUMR001" in alarms({"train_loss": full[:60] + [float("nan")] * 140})  # more NaN than numbers
    assert "NUMR001" in alarms({"train_loss": full + [float("inf")] * 5})


def test_a_plain_list_of_losses_is_a_run() -> None:
    assert len(traindx.load(LOSS.tolist())[0].series("loss/train")) == N
    assert not alarms(LOSS) and not alarms(every(2, LOSS, None))
