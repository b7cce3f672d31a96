"""Facts of wiring in loops of unusual styles: by hand, with several optimizers, over padded text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from probes.watched import watched
from traindx.probes.read.model.wiring import Outline
from traindx.run import Run


def by_hand(clear: bool) -> Run:
    torch.manual_seed(0)
    w, x = torch.randn(6, 1, requires_grad=True), torch.randn(64, 6)

    def loop() -> None:
        for _ in range(12):
            ((x @ w - x[:, :1]) ** 2).mean().backward()
            with torch.no_grad():
                w.sub_(0.01 * w.grad)
                if clear:
                    w.grad.zero_()

    return watched(loop)


def test_gradients_that_pile_up_in_a_loop_without_an_optimizer() -> None:
    stale = by_hand(clear=False)["loop/stale_grads"].values
    # where optimizers of other tests are still alive, a loop by hand is believed one update later
    assert stale[0] == 0 and stale[2:-1].all()
    assert not by_hand(clear=True)["loop/stale_grads"].values.any()


def two_optimizers(clear: bool) -> Run:
    torch.manual_seed(0)
    body, head, x = nn.Linear(6, 8), nn.Linear(8, 1), torch.randn(64, 6)

    def loop() -> None:
        one, two = torch.optim.SGD(body.parameters(), 0.01), torch.optim.SGD(head.parameters(), 0.01)
        for _ in range(12):
            one.zero_grad()
            if clear:
                two.zero_grad()
            F.mse_loss(head(body(x)), x[:, :1]).backward()
            one.step()
            two.step()

    return watched(loop)


def test_a_second_optimizer_that_is_never_cleared() -> None:
    told = two_optimizers(clear=False).events_of("stale_grads")
    assert told[-1].data["optimizer"] == 1 and told[-1].data["count"] >= 10 and told[-1].data["names"]
    assert not two_optimizers(clear=True).events_of("stale_grads")


def micro_batches(divided: bool, each: bool) -> Run:
    torch.manual_seed(0)
    model, x = nn.Linear(6, 1), torch.randn(64, 6)

    def loop() -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for i in range(32):
            if each or i % 4 == 0:
                optimizer.zero_grad()
            loss = F.mse_loss(model(x), x[:, :1])
            (loss / 4 if divided else loss).backward()
            if i % 4 == 3:
                optimizer.step()

    return watched(loop)


def test_accumulated_gradients_that_are_thrown_away() -> None:
    assert micro_batches(divided=True, each=True).events_of("accumulation_discarded")[-1].data["k"] == 4
    assert not micro_batches(divided=True, each=False).events_of("accumulation_discarded")


class Text(nn.Module):
    def __init__(self, pool: Callable[[Tensor, Tensor], Tensor], dropout: float = 0.0) -> None:
        super().__init__()
        self.embed, self.drop, self.head, self.pool = nn.Embedding(30, 8), nn.Dropout(dropout), nn.Linear(8, 2), pool

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.pool(self.drop(self.embed(tokens)), tokens))


def masked(h: Tensor, tokens: Tensor) -> Tensor:
    return h.masked_fill((tokens == 0)[..., None], 0.0).mean(1)


def weighed(h: Tensor, tokens: Tensor) -> Tensor:
    keep = (tokens != 0)[..., None].float()
    return (h * keep).mean(1)


def read_text(model: nn.Module) -> Run:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 30, (16, 10), generator=generator)
    tokens[torch.arange(10) >= torch.randint(3, 11, (16, 1), generator=generator)] = 0
    label = torch.arange(16) % 2

    def loop() -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(6):
            optimizer.zero_grad()
            F.cross_entropy(model(tokens), label).backward()
            optimizer.step()

    return watched(loop, Outline())


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_means_over_padding(dropout: float) -> None:
    bare = read_text(Text(lambda h, t: h.mean(1), dropout)).fact("model.pooling")
    assert bare["bare"] > 0 and not bare["masked"]
    for pool in (masked, weighed):
        assert read_text(Text(pool, dropout)).fact("model.pooling")["bare"] == 0


def test_a_sum_over_tokens_is_no_mean() -> None:
    assert read_text(Text(lambda h, t: h.sum(1) / (t != 0).sum(1, keepdim=True))).fact("model.pooling") is None


class Attends(nn.Module):
    def __init__(self, inverted: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head, self.inverted = nn.Linear(8, 2), inverted

    def forward(self, tokens: Tensor) -> Tensor:
        pad = tokens == 0
        pad[:, 0] = self.inverted  # nobody is left without a key
        return self.head(self.layer(self.embed(tokens), src_key_padding_mask=~pad if self.inverted else pad)[:, 0])


def test_a_mask_is_read_also_where_dropout_hides_it() -> None:
    assert read_text(Attends(inverted=True)).fact("model.pad_mask")["valid_masked"] > 0.5
    assert read_text(Attends(inverted=False)).fact("model.pad_mask") == {"valid_masked": 0.0, "pad_attended": 0.0}


def put_back(every: int) -> Run:
    torch.manual_seed(0)
    model, x = nn.Linear(6, 1), torch.randn(64, 6)

    def loop() -> None:
        first = [p.detach().clone() for p in model.parameters()]
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for i in range(60):
            if every and i % every == 0:
                for p, w in zip(model.parameters(), first, strict=True):
                    p.data.copy_(w)
            optimizer.zero_grad()
            F.mse_loss(model(x), x[:, :1]).backward()
            optimizer.step()

    return watched(loop, Outline())


def test_first_weights_that_are_there_again() -> None:
    assert put_back(every=10).events_of("weights_back")[-1].data["count"] >= 3
    assert not put_back(every=0).events_of("weights_back")


def test_ties_that_break_between_two_trainings_of_one_model() -> None:
    model = Text(lambda h, t: h.sum(1))
    model.head = nn.Linear(8, 30, bias=False)
    model.head.weight = model.embed.weight
    tokens = torch.randint(1, 30, (16, 10))

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(12):
            optimizer.zero_grad()
            F.cross_entropy(model(tokens), tokens[:, 0]).backward()
            optimizer.step()

    def loop() -> None:
        train()
        model.embed, model.head = nn.Embedding(30, 8), nn.Linear(8, 30, bias=False)
        train()

    assert watched(loop, Outline()).fact("model.tying_broken") == [["embed.weight", "head.weight"]]
