"""A look-up that ends a program: which table, which id."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from traindx.forensics.lookup import beyond


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(10, 4), nn.Embedding(6, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.tok(ids) + self.pos(torch.arange(ids.shape[1]))


def died_of(*args: Any) -> BaseException:
    with pytest.raises(Exception) as raised:
        Reader()(*args)
    return raised.value


def test_the_table_and_the_id_are_named() -> None:
    ids = torch.tensor([[1, 2, 12]])
    assert beyond(died_of(ids)) == {"name": "tok", "rows": 10, "id": 12, "positions": False}
    assert beyond(died_of(torch.tensor([[1, -100, 3]]))) == {"name": "tok", "rows": 10, "id": -100, "positions": False}


def test_a_sequence_that_is_too_long_is_told_from_a_strange_token() -> None:
    told = beyond(died_of(torch.zeros(2, 8, dtype=torch.long)))
    assert told == {"name": "pos", "rows": 6, "id": 7, "positions": True}


def test_other_errors_are_none_of_its_business() -> None:
    assert beyond(IndexError("list index out of range")) is None
    assert beyond(died_of(torch.zeros(2, 3))) is None
