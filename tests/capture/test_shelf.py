"""A script that is only tried overwrites no checkpoint, finds what it saved, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import torch

from traindx.capture.shelf import Shelf


def test_a_file_that_is_there_stays_and_what_was_saved_can_be_loaded(tmp_path: Path) -> None:
    shelf = Shelf(torch.save, torch.load)
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    torch.save({"a": 1}, old)
    before = old.read_bytes()
    shelf.save({"a": 2}, old)
    shelf.save({"a": 3}, str(new))
    shelf.save({"a": 4}, new)
    assert old.read_bytes() == before and new.exists()
    assert shelf.load(old)["a"] == 2 and shelf.load(str(new))["a"] == 4
    shelf.clear()
    assert old.read_bytes() == before and not new.exists()
