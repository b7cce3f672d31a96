"""What a recurrent layer can keep of its past."""

from __future__ import annotations

import torch
from torch import nn

from probes.watched import watched
from traindx.probes.read.model.recurrent_memory import Recall


class Reader(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.rnn = kind(3, 8, batch_first=True, **options)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def told(kind, bias: float | None = None):
    def loop():
        model = Reader(kind)
        if bias is not None:
            with torch.no_grad():
                model.rnn.bias_ih_l0[8:16] = model.rnn.bias_hh_l0[8:16] = bias / 2
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 11, 3)).pow(2).mean().backward()
            optimizer.step()

    return watched(loop, Recall()).fact("model.recall")["rnn"]


def test_gates_and_matrices():
    assert told(nn.LSTM, bias=-8.0)["keep"] < 0.001
    assert told(nn.GRU, bias=8.0)["keep"] > 0.99
    plain = told(nn.RNN)
    assert plain["kind"] == "RNN" and plain["length"] == 11 and 0.5 < plain["keep"] < 2


def test_a_network_without_one():
    def loop():
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        optimizer.zero_grad()
        model(torch.randn(4, 3)).pow(2).mean().backward()
        optimizer.step()

    assert watched(loop, Recall()).fact("model.recall") is None
