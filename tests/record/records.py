"""Records for tests: small ones, with known content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from traindx.record import Budget, Writer
from traindx.run import Event, Matrix, Run

NAMES = ("enc.weight", "enc.bias", "head.weight")


def quiet(_: str) -> None:
    """Takes the place of stderr."""


def a_writer(path: Path, **options: Any) -> Writer:
    return Writer(path, say=options.pop("say", quiet), **options)


def loss_at(step: int) -> float:
    return float(np.float32(2.0 / (step + 1)))


def norms_at(step: int) -> np.ndarray:
    return np.array([step, 0.5 * step, 1.0 / (step + 1)], np.float32)


def write_step(writer: Writer, step: int) -> None:
    writer.write(step, {"loss/train": loss_at(step), "lr": 0.125, "grad_norm/param": norms_at(step)}, time=1000.0 + step)


def a_record(path: Path, *, steps: range = range(12), batch: int = 3, how: str = "closed", **options: Any) -> Path:
    """A record of a few batches, one fact and one event."""
    writer = a_writer(path, **options)
    writer.names("grad_norm/param", NAMES)
    writer.fact("optimizer.name", "SGD")
    writer.event(Event(2, "spike", {"signal": "loss/train"}, 1002.0))
    for i, step in enumerate(steps):
        write_step(writer, step)
        if (i + 1) % batch == 0:
            assert writer.flush()
    writer.close(how)
    assert writer.state == "closed", writer.troubles
    return path


def cells(run: Run) -> set[tuple[str, str, int, float]]:
    """Every number of a run with its place; NaN, which equals nothing, becomes a word."""
    out: set[tuple[str, str, int, Any]] = set()
    for signal, found in run.signals.items():
        columns = found.columns() if isinstance(found, Matrix) else [("", found.values)]
        for name, values in columns:
            out |= {(signal, name, s, "nan" if v != v else v) for s, v in zip(found.steps.tolist(), values.tolist())}
    return out


def files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*.tdx"))


def failing(real: Callable[..., Any], at: int, error: OSError, *, lasting: bool = False) -> Callable[..., Any]:
    """The real call, which fails at its `at`-th use (and ever after if `lasting`)."""
    count = 0

    def call(*args: Any, **names: Any) -> Any:
        nonlocal count
        count += 1
        if count == at or (lasting and count > at):
            raise error
        return real(*args, **names)

    return call


SMALL = Budget().scaled(1 / 1000)  # 256 kB of series, 128 kB of matrices: everything happens a thousand times sooner
