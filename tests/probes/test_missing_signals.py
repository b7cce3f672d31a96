"""Evidence that single rules wait for: padding, lengths, random validation, masks with a class token, repeated relu."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from probes.watched import watched
from traindx.probes.read.activation.liveness import Liveness
from traindx.probes.read.common.token_ids import TokenBatch, pad_id
from traindx.probes.read.data.data import Data
from traindx.probes.read.model.wiring import Outline


def update(optimizer, loss) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def padded(n: int = 64, longest: int = 20) -> torch.Tensor:
    torch.manual_seed(3)
    tokens = torch.randint(1, 9, (n, longest))
    tokens[torch.arange(longest)[None] >= torch.randint(3, 9, (n, 1))] = 0
    return tokens


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, t):
        return self.head(self.embed(t).mean(1))


@pytest.mark.parametrize("loader", [True, False])
def test_padding_without_a_mask_is_counted(loader):
    tokens = padded()
    labels = (tokens == 3).any(1).long()

    def loop():
        model = Reader()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        batches = DataLoader(TensorDataset(tokens, labels), 16) if loader else zip(tokens.split(16), labels.split(16))
        for t, y in batches:
            update(optimizer, F.cross_entropy(model(t), y))

    run = watched(loop, Data())
    shares = [(part == 0).float().mean().item() for part in tokens.split(16)]
    assert run["batch/pad_share"].values == pytest.approx(shares)
    assert run["batch/length"].values == pytest.approx([20 * (1 - s) for s in shares])


def test_a_blank_that_also_stands_inside_of_texts_is_no_padding():
    text = np.random.default_rng(0).integers(1, 9, (40, 16))
    for row, n in zip(text, np.random.default_rng(1).integers(2, 8, 40)):
        row[16 - n :] = 1
    assert pad_id([TokenBatch(text, None, None, -100)]) == (None, False)
    text[text == 1] = 2
    for row, n in zip(text, np.random.default_rng(1).integers(2, 8, 40)):
        row[16 - n :] = 1
    assert pad_id([TokenBatch(text, None, None, -100)]) == (1, True)


def test_the_length_of_sequences_is_known_from_the_targets_of_a_loss():
    def loop():
        model = nn.Linear(3, 5)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for length in (4, 6, 8):
            x, y = torch.randn(8, length, 3), torch.randint(0, 5, (8, length))
            update(optimizer, F.cross_entropy(model(x).flatten(0, 1), y.flatten()))

    assert watched(loop, Data())["batch/length"].values.tolist() == [4.0, 6.0, 8.0]


class Shaken(Dataset):
    def __init__(self, shake: float):
        torch.manual_seed(5)
        self.x, self.y, self.shake = torch.randn(40, 4), torch.randint(0, 2, (40,)), shake

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return self.x[i] + self.shake * torch.randn(4), self.y[i]


@pytest.mark.parametrize("shake", [0.0, 0.5])
@pytest.mark.parametrize("budget", [None, 0.0])
def test_validation_samples_that_change_between_evaluations(shake, budget):
    def loop():
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        train, valid = DataLoader(Shaken(0.5), 4, shuffle=True), DataLoader(Shaken(shake), 20)
        for _ in range(6):
            for x, y in train:
                update(optimizer, F.cross_entropy(model(x), y))
            model.eval()
            with torch.no_grad():
                for x, y in valid:
                    F.cross_entropy(model(x), y)
            model.train()

    assert watched(loop, Data(), budget=budget).fact("data.val_random") is (shake > 0)


@pytest.mark.parametrize(("shake", "rebuilds", "told"), [(0.0, False, False), (0.5, False, True), (0.5, True, None)])
@pytest.mark.parametrize("classes", [False, True])
def test_validation_inputs_that_change_without_a_loader(shake, rebuilds, told, classes):
    """Noise on the input of a model that has to take it off again is its task."""
    x = torch.randn(40, 4)
    y = torch.arange(40) % 2 if classes else x[:, :1] * 2

    def loss(model, x, clean):
        out = model(x)
        if rebuilds:
            return F.mse_loss(out, clean)
        return F.cross_entropy(out, y) if classes else F.mse_loss(out[:, :1], y)

    def loop():
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(6):
            for _ in range(10):
                update(optimizer, loss(model, x, x))
            model.eval()
            with torch.no_grad():
                loss(model, x + 1 + shake * torch.randn(40, 4), x).item()
            model.train()

    assert watched(loop, Data()).fact("data.val_random") is told


class Encoder(nn.Module):
    def __init__(self, inverted: bool, dropout: float):
        super().__init__()
        self.inverted = inverted
        self.embed = nn.Embedding(10, 8, padding_idx=0)
        self.layer = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout, batch_first=True), 1, enable_nested_tensor=False
        )
        self.head = nn.Linear(8, 2)

    def forward(self, tokens):
        pad = (tokens != 0) if self.inverted else (tokens == 0)
        own = torch.full_like(tokens[:, :1], 9)
        pad = torch.cat([torch.zeros_like(pad[:, :1]), pad], 1)
        return self.head(self.layer(self.embed(torch.cat([own, tokens], 1)), src_key_padding_mask=pad)[:, 0])


@pytest.mark.parametrize("dropout", [0.0, 0.1])  # with dropout torch adds the mask, and nothing but the weights shows it
@pytest.mark.parametrize("inverted", [False, True])
def test_a_padding_mask_is_compared_with_the_padding_also_behind_a_class_token(inverted, dropout):
    tokens = padded(32, 12)

    def loop():
        model = Encoder(inverted, dropout)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            update(optimizer, F.cross_entropy(model(tokens), tokens[:, 0] % 2))

    found = watched(loop, Outline()).fact("model.pad_mask")
    assert found == {"valid_masked": float(inverted), "pad_attended": float(inverted)}


class Bare(nn.Module):
    """Attention without any mask, or a causal one, over sequences whose padding the embedding knows (or not)."""

    def __init__(self, pad: int | None, causal: bool, dropout: float = 0.0):
        super().__init__()
        self.embed, self.causal, self.dropout = nn.Embedding(10, 8, padding_idx=pad), causal, dropout
        self.q, self.k, self.v, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, tokens):
        h = self.embed(tokens).unsqueeze(1)
        h = F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h), dropout_p=self.dropout, is_causal=self.causal)
        return self.head(h.squeeze(1).mean(1))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(("pad", "causal", "attended"), [(0, False, 1.0), (None, False, None), (0, True, None)])
def test_attention_without_any_mask_attends_to_padding_that_is_known_to_be_there(pad, causal, attended, dropout):
    tokens = padded(32, 12)

    def loop():
        model = Bare(pad, causal, dropout)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            update(optimizer, F.cross_entropy(model(tokens), tokens[:, 0] % 2))

    found = watched(loop, Outline()).fact("model.pad_mask")
    assert ((found and found["pad_attended"]) or None) == attended


class Windowed(Bare):
    """Everybody sees the first three positions, itself and the two before it, of padded sequences too: none needs more."""

    def __init__(self, within: int):
        super().__init__(0, causal=False)
        self.within = within

    def forward(self, tokens):
        h = self.embed(tokens).unsqueeze(1)
        place = torch.arange(tokens.shape[1])
        back = place[:, None] - place[None, :]
        seen = ((back >= 0) & (back < self.within)) | (place[None, :] < 3)
        mask = seen.expand(len(tokens), 1, -1, -1)
        return self.head(F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h), mask)[:, 0, 0])


@pytest.mark.parametrize("within", [3, 99])
def test_padding_that_only_padding_sees_is_shut_out(within):
    tokens = padded(32, 12)
    tokens[:, :3] = torch.randint(1, 10, (32, 3))

    def loop():
        model = Windowed(within)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            update(optimizer, F.cross_entropy(model(tokens), tokens[:, 0] % 2))

    assert watched(loop, Outline()).fact("model.pad_mask") == {"valid_masked": 0.0, "pad_attended": 0.0}


def test_attention_without_a_mask_over_full_sequences_has_nothing_to_attend_to():
    def loop():
        model = Bare(0, causal=False)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        tokens = torch.randint(1, 10, (32, 12))
        for _ in range(4):
            update(optimizer, F.cross_entropy(model(tokens), tokens[:, 0] % 2))

    assert watched(loop, Outline()).fact("model.pad_mask") is None


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 2)
        nn.init.constant_(self.b.bias, -50.0)

    def forward(self, x):
        x = torch.relu(self.a(x))
        x = torch.relu(self.b(x))
        return self.c(x)


def test_a_relu_that_is_called_again_and_again_is_seen_each_time():
    def loop():
        model = Functional()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(45):
            x = torch.randn(100, 4)
            update(optimizer, F.cross_entropy(model(x), (x[:, 0] > 0).long()))

    run = watched(loop, Liveness())
    seen, dead = run["dead_samples/module"], run["dead_fraction/module"]
    assert seen.names == ("a", "b") and seen.values.tolist() == [[2000.0, 2000.0]] * 2  # and no short rest of 500 samples
    assert dead.column("b").last == 1.0 and dead.column("a").last < 0.5


def test_a_relu_module_is_counted_once():
    def loop():
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(4):
            x = torch.randn(30, 4)
            update(optimizer, F.cross_entropy(model(x), (x[:, 0] > 0).long()))

    assert watched(loop, Liveness())["dead_samples/module"].names == ("1",)
