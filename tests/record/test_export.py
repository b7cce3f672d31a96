"""The data is the user's: CSV, Parquet, TensorBoard."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from record.records import a_record
from traindx.errors import EnvironmentFault, UsageError
from traindx.record import read
from traindx.record.export import export, guarded
from traindx.run import Matrix, Run, Series

STEPS = np.array([0, 1, 2, 10])


def a_run(**more: Any) -> Run:
    loss = Series(STEPS, np.array([2.5, math.nan, math.inf, -0.25]), np.array([100.0, 101.0, math.nan, 110.0]))
    norms = Matrix(STEPS[:2], ("a", "=b"), np.array([[1.0, 2.0], [math.nan, 4.0]]))
    return Run({"loss/train": loss, "grad_norm/param": norms, **more}, {"started": 90.0})


def test_csv_has_a_row_per_number(tmp_path: Path) -> None:
    path = export(a_run(), "csv", tmp_path / "out")
    assert path.name == "out.csv"
    rows = list(csv.reader(path.open(newline="")))
    assert rows[0] == ["signal", "name", "step", "value", "time"]
    assert rows[1:] == [
        ["grad_norm/param", "a", "0", "1.0", ""],
        ["grad_norm/param", "'=b", "0", "2.0", ""],
        ["grad_norm/param", "'=b", "1", "4.0", ""],
        ["loss/train", "", "0", "2.5", "100.0"],
        ["loss/train", "", "1", "nan", "101.0"],
        ["loss/train", "", "2", "inf", ""],
        ["loss/train", "", "10", "-0.25", "110.0"],
    ]


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_a_name_that_a_spreadsheet_would_run_is_quoted(text: str) -> None:
    assert guarded(text) == "'" + text
    assert guarded("loss/" + text) == "loss/" + text


def test_names_that_are_no_text_elsewhere_are_written(tmp_path: Path) -> None:
    odd = Series(np.array([0]), np.array([1.0]))
    path = export(Run({'with "quotes", commas\nand lines': odd, "lone \ud800": odd}), "csv", tmp_path / "out.csv")
    rows = list(csv.reader(path.open(newline="", encoding="utf-8")))
    assert {r[0] for r in rows[1:]} == {'with "quotes", commas\nand lines', "lone ?"}


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    from pyarrow import parquet

    table = parquet.read_table(export(a_run(), "parquet", tmp_path / "out.parquet")).to_pydict()
    assert table["signal"] == ["grad_norm/param"] * 3 + ["loss/train"] * 4
    assert table["step"] == [0, 0, 1, 0, 1, 2, 10]
    assert table["value"][:4] == [1.0, 2.0, 4.0, 2.5]
    assert math.isnan(table["value"][4])
    assert table["value"][5:] == [math.inf, -0.25]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(EnvironmentFault, match=r"pip install 'traindx\[arrow\]'"):
        export(a_run(), "parquet", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_what_we_write(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing import event_accumulator as accumulator

    far = Series(np.array([-1, 2**40]), np.array([1.0, 2.0]))
    folder = export(a_run(**{"метрика 😀": far}), "tensorboard", tmp_path / "tb")
    events = accumulator.EventAccumulator(str(folder), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["grad_norm/param/=b", "grad_norm/param/a", "loss/train", "метрика 😀"]
    loss = events.Scalars("loss/train")
    assert [e.step for e in loss] == [0, 1, 2, 10]
    assert [e.wall_time for e in loss] == [100.0, 101.0, 90.0, 110.0]
    assert loss[0].value == 2.5
    assert math.isnan(loss[1].value)
    assert loss[2].value == math.inf
    assert [e.step for e in events.Scalars("метрика 😀")] == [-1, 2**40]


def test_a_record_goes_all_the_way(tmp_path: Path) -> None:
    run = read(a_record(tmp_path / "run"))
    for to in ("csv", "parquet", "tensorboard"):
        assert export(run, to, tmp_path / f"out-{to}").exists()


def test_an_empty_run_is_an_empty_table(tmp_path: Path) -> None:
    for to in ("csv", "parquet", "tensorboard"):
        assert export(Run(), to, tmp_path / f"out-{to}").exists()


def test_nothing_is_overwritten_and_nothing_is_left_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = export(a_run(), "csv", tmp_path / "out.csv")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        export(a_run(), "csv", path)
    assert path.read_bytes() == before
    monkeypatch.setattr("traindx.record.export.guarded", lambda text: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(a_run(), "csv", tmp_path / "half.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv"]


def test_an_unknown_format_and_an_impossible_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="csv, parquet, tensorboard"):
        export(a_run(), "excel", tmp_path / "out")
    (tmp_path / "file").write_text("x")
    with pytest.raises(EnvironmentFault, match="cannot write"):
        export(a_run(), "csv", tmp_path / "file" / "out")
