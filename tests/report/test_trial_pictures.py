"""Pictures of trials and the page of the pre-flight."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from traindx.errors import UsageError
from traindx.probes.read.data.pictures import png
from traindx.report import preflight
from traindx.report.picture import svg
from traindx.report.trial import picture, save
from traindx.run import Run
from traindx.trial import Result
from traindx.trials.check import Item
from traindx.trials.sight import contact_sheet, module_table
from trials.tasks import HEALTHY


def sweep() -> Result:
    rates = np.geomspace(1e-7, 1, 60)
    losses = np.r_[np.linspace(2.3, 0.5, 50), np.geomspace(0.5, 1e9, 10)]
    run = Run.of({"trial/lr": rates, "trial/loss": losses}, kind="trial")
    return Result("lr-range", "done", {"start_lr": 1e-3, "steep": 2e-3}, "start with <1e-3>", run)


def surface(rows: int) -> Result:
    axis = np.linspace(-1, 1, 7)
    table = (axis[None, :] ** 2 + (axis[:rows, None] ** 2 if rows > 1 else 0)).tolist()
    return Result("landscape", "done", {"axis": axis.tolist(), "loss": table, "dimensions": 2 if rows > 1 else 1}, "a bowl")


EMPTY = Result("determinism", "pass", {}, "equal to the bit")


@pytest.mark.parametrize("result", [sweep(), surface(7), surface(1), EMPTY], ids=["sweep", "plane", "line", "numbers only"])
def test_every_result_has_a_picture(result: Result, tmp_path: Path) -> None:
    root = ET.fromstring(svg(picture(result)))
    assert root.tag.endswith("svg") and result.trial in "".join(root.itertext())
    for ending in (".svg", ".html", ".png"):
        save(result, tmp_path / f"x{ending}")
        assert (tmp_path / f"x{ending}").stat().st_size > 300


def test_the_sweep_is_drawn_over_the_rates_and_a_blow_up_does_not_flatten_it() -> None:
    drawn = picture(sweep())
    assert drawn.log_x and drawn.marks == ((1e-3, "start"), (2e-3, "steepest"))
    assert "<1e-3>" not in svg(drawn) and "1e+09" not in svg(drawn)


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="svg"):
        save(EMPTY, tmp_path / "x.gif")


def test_the_contact_sheet_shows_pictures_with_their_targets_and_stores_nothing() -> None:
    task = HEALTHY["conv and batch norm"]()
    sheet, modules = contact_sheet(task), module_table(task)
    assert len(sheet["train"]) == 5 and sheet["train"][0]["kind"] == "image" and len(sheet["val"]) > 0
    assert [m["class"] for m in modules][:2] == ["Conv2d", "BatchNorm2d"] and modules[0]["out"] == [32, 8, 8, 8]
    page = preflight.render([Item("x <b>", "fail", "why", "mend")], modules, sheet, 1.0)
    assert "data:image/png;base64," in page and "x &lt;b&gt;" in page and "<script" not in page


def test_ids_and_dicts_are_shown_as_numbers() -> None:
    sheet = contact_sheet(HEALTHY["dict batches"]())
    assert sheet["val"] == [] and "targets" in sheet["train"][0]
    assert "float32 32×64" in preflight.about(sheet["train"][0])


def test_a_png_of_ours_is_one() -> None:
    data = png(np.arange(12, dtype=np.uint8).reshape(3, 4))
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (4, 3)
