"""Device, dtype and shape errors become the first answer of the pre-flight, with the module and the line."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from traindx.trials.check import check
from traindx.trials.task import Task


class Net(nn.Module):
    def __init__(self, width: int = 8, device: str = "cpu") -> None:
        super().__init__()
        self.body, self.head, self.shift = nn.Linear(8, 8), nn.Linear(width, 3), torch.zeros(3, device=device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x)) + self.shift


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(5, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(x).mean(1))


X, Y = torch.randn(16, 8), torch.arange(16) % 3
FAULTS = {
    "shape": (Net(9), (X, Y), ("input size does not fit", "in head (Linear)", "self.head(self.body(x))")),
    "dtype of the input": (Net(), (X.double(), Y), ("precision", "in body (Linear)", "self.head(self.body(x))")),
    "dtype of the target": (Net(), (X, Y.float()), ("class targets are int64", "CrossEntropyLoss")),
    "label": (Net(), (X, Y + 3), ("beyond the number of the model's outputs", "CrossEntropyLoss")),
    "device": (Net(device="meta"), (X, Y), ("different devices", "in Net", "self.shift")),
    "token": (Words(), (torch.full((16, 6), 7), Y), ("beyond the table", "in words (Embedding)", "self.words(x)")),
    "ids": (Words(), (X, Y), ("int64 ids", "in words (Embedding)", "self.words(x)")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_is_told_with_its_module_and_line(name: str) -> None:
    model, batch, words = FAULTS[name]
    task = Task(model, nn.CrossEntropyLoss(), [batch] * 3, optimizer=torch.optim.SGD(model.parameters(), 0.1))
    first, *rest = check(task, level="quick").items
    assert first.item == "a step can be made" and first.result == "fail"
    assert all(word in first.message for word in words), first.message
    assert "self." not in first.message or "test_faults.py:" in first.message
    assert {i.result for i in rest} == {"cannot-tell"}
