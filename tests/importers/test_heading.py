"""Tables in printed logs: names once, numbers under them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from traindx import importers
from traindx.importers.heading import heading_of

FASTAI = ("epoch     train_loss  valid_loss  accuracy  time    ", "{e:<10d}{t:<12.6f}{v:<12.6f}{a:<10.6f}00:04    ")
TABLES = {
    "fastai": FASTAI,
    "skorch": (
        "  epoch    train_loss    valid_acc    valid_loss     dur\n-------  ------------  -----------  ------------  ------",
        "      {e}        {t:.4f}       {a:.4f}        {v:.4f}  0.0234",
    ),
    "bars": ("| Epoch | Train Loss | Val Loss | Val Acc |\n|---|---|---|---|", "| {e}/30 | {t:.4f} | {v:.4f} | {a:.2%} |"),
    "commas after other lines": ("Using device: cpu\nepoch,train_loss,val_loss,val_acc", "{e},{t:.4f},{v:.4f},{a:.4f}"),
    "print": ("epoch train_loss val_loss val_acc", "{e} {t:.4f} {v:.4f} {a:.4f}"),
    "a mark for the best": (*FASTAI[:1], FASTAI[1].replace("{a:<10.6f}", "{a:.6f}* ")),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_row_is_a_record(kind: str, tmp_path: Path) -> None:
    head, row = TABLES[kind]
    rows = [row.format(e=e, t=1 / (e + 1), v=1.2 / (e + 1), a=1 - 0.5 / (e + 1)) for e in range(1, 31)]
    path = tmp_path / "train.log"
    path.write_text("\n".join([head, *rows[:10], "saved a checkpoint", *rows[10:]]))
    [run] = importers.read(path)
    loss, val = run.series("loss/train"), run.series("loss/val")
    assert len(loss) == len(val) == 30
    np.testing.assert_allclose(loss.values, 1 / (np.arange(1, 31) + 1), atol=1e-3)
    np.testing.assert_allclose(val.values / loss.values, 1.2, atol=0.02)
    assert len(run.series("accuracy/val")) == 30


@pytest.mark.parametrize(
    "line",
    [
        "the loss of an epoch",
        "Saving model, loss improved, epoch done",
        "loss is nan, epoch skipped, accuracy unknown",
        "epoch 3  loss 0.5  accuracy 0.9",
        "Epoch 1/21  train loss 0.5100  val loss 0.6200  val acc 0.9000",
        "epoch 1 | train loss nan | val loss .62 | val acc 90%",
        "loss0.5  acc0.9  epoch1",
        "| rollout/ | |",
        "name  size  kind",
    ],
)
def test_other_lines_are_no_heading(line: str) -> None:
    assert heading_of(line) is None


def test_lines_of_other_shapes_are_no_rows() -> None:
    heading = heading_of(FASTAI[0])
    assert heading is not None
    for line in ("1 2 3", "a b c d e", "1 0.5 0.4 0.9 next", "", "0 1 2 3 4 5"):
        assert heading.phrase(line) is None
