"""Printed lines are understood by their shape; the generator of `bench/log_formats.py` knows the truth."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import log_formats

from traindx import importers
from traindx.importers import shapes


@pytest.mark.parametrize("seed", range(0, 400, 8))
def test_generated_formats_are_read_right(seed: int, tmp_path: Path) -> None:
    text, truth, kind = log_formats.make(seed)
    assert log_formats.verdict(text, truth, tmp_path) == "right", kind


def test_the_running_mean_is_the_curve_and_a_second_figure_is_not() -> None:
    meter = [f"iter {i} loss {3 - i / 10 + 0.3 * (-1) ** i:.3f} ({3 - i / 10:.3f})" for i in range(10)]
    assert [r.values["loss"] for r in shapes.records_of(shapes.read(meter))] == [round(3 - i / 10, 3) for i in range(10)]
    other = [f"epoch {i}: train {3 - i / 10:.3f} ({0.2 + i / 20:.3f})" for i in range(10)]
    assert [r.values["train loss"] for r in shapes.records_of(shapes.read(other))] == [round(3 - i / 10, 3) for i in range(10)]


def test_what_is_printed_before_the_training_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    code = "for step in range(10):\n    loss = f(x)  # step 7: loss 0.5\nval_loss = 0.0\n"
    path.write_text(code + "".join(f"step {i}: loss {2 - i / 10:.2f}\n" for i in range(12)))
    [run] = importers.read(path)
    assert run["loss/train"].values[0] == 2.0 and len(run["loss/train"]) == 12 and "loss/val" not in run


def test_two_losses_of_one_line_are_two_splits_in_any_order() -> None:
    lines = [f"epoch {i} | val_loss: {5 - i / 10} | loss: {4 - i / 10}" for i in range(5)]
    assert shapes.records_of(shapes.read(lines))[0].values == {"val_loss": 5.0, "loss": 4.0}


def test_thousands_have_commas(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("".join(f"[epoch: 1, iter: {i:7,d}] l_pix: {1 / i:.3e}\n" for i in range(500, 3000, 100)))
    [run] = importers.read(path)
    assert run["loss/train"].steps[[0, -1]].tolist() == [500, 2900]


def test_a_very_long_log_keeps_one_line_in_so_many_and_each_that_is_not_finite() -> None:
    lines = (f"step {i}: loss {'nan' if i == 150_001 else f'{1 + 1 / (1 + i):.6f}'} | lr 0.001" for i in range(260_000))
    state = shapes.read(lines)
    found = shapes.records_of(state)
    steps = [r.step for r in found]
    assert len(found) < 2 * shapes.MOST_OF_SHAPE and steps == sorted(steps) and 150_001 in steps and steps[-1] > 259_990


def test_a_form_of_line_that_is_known_is_read_quickly_and_the_same() -> None:
    lines = [
        f"[2026-01-0{1 + i % 9} 10:00:{i % 60:02d}] INFO step {i}: loss {3 / (1 + i):.5f} | tok/s {i * 1000:,}"
        for i in range(300)
    ]
    quick, thorough = shapes.read(lines), shapes.State()
    for line in lines:
        thorough.lines += 1
        thorough.known.clear()
        shapes.take(line, thorough)
    assert max(k.agreed for k in quick.known.values()) >= shapes.ENOUGH
    assert [r.values for r in shapes.records_of(quick)] == [r.values for r in shapes.records_of(thorough)]
