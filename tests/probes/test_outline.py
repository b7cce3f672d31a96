"""The model as it is wired: ownership, reach, calls, ties, adapters; each with the look-alike that must not be taken for it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import traindx
from probes.watched import fit, watched
from traindx.probes.read.model import anatomy
from traindx.probes.read.model.wiring import Outline, alternating
from traindx.run import Run

X = torch.randn(320, 8, generator=torch.Generator().manual_seed(0))
Y = torch.randint(0, 5, (320,), generator=torch.Generator().manual_seed(1))


def ce(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out, y)


class Net(nn.Module):
    """Encoder, middle, head; `between` is what happens to the encoder's output."""

    def __init__(self, between: Any = lambda h: h) -> None:
        super().__init__()
        self.encoder, self.middle, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 5)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.middle(torch.relu(self.between(self.encoder(x))))))


def outline(make: Any, steps: int = 25, loss: Any = ce, x: Tensor = X, y: Tensor = Y, **options: Any) -> Run:
    def loop() -> None:
        model = make()
        fit(model, loss, x, y, steps=steps, **options)

    return watched(loop, Outline())


# -- what it is


def test_the_outline_is_in_forward_order():
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.first = nn.Linear(16, 5), nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh())

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x))

    run = outline(Backwards)
    names = [row["name"] for row in run.fact("model.outline")]
    assert names.index("first.0") < names.index("first.2") < names.index("last")
    assert run.fact("model.activations") == {"first.2": "tanh"}
    assert run.fact("model.norm_gains") == ["first.1.weight"]
    assert run.fact("model.params") == run.fact("model.trainable") == 8 * 16 + 16 + 32 + 16 * 5 + 5
    assert run.fact("model.param_shapes")["last.weight"] == [5, 16]
    assert run.fact("model.param_module")["first.1.bias"] == "BatchNorm1d"
    assert run.fact("model.class") == "Backwards"
    assert run.fact("model.unreachable") == run.fact("model.unowned") == run.fact("model.never_called") == []
    assert run.fact("model.linear_pairs") == []


def test_the_gain_of_the_initialisation_is_one_for_unit_variance():
    def make() -> nn.Module:
        model = nn.Linear(64, 5)
        nn.init.normal_(model.weight, std=1 / 8)
        return nn.Sequential(model)

    run = outline(make, x=torch.randn(320, 64))
    assert run.fact("model.init_gain")["0.weight"] == pytest.approx(1.0, rel=0.1)


def test_constant_rows_are_twins():
    def make() -> nn.Module:
        model = Net()
        nn.init.constant_(model.middle.weight, 0.1)
        return model

    twins = outline(make).fact("model.twin_rows")
    assert twins == {"middle.weight": 1.0}


# -- ownership


def test_a_head_replaced_after_the_optimizer_was_built():
    def loop() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        model.head = nn.Linear(16, 5)
        for i in range(5):
            optimizer.zero_grad()
            ce(model(X[:16]), Y[:16]).backward()
            optimizer.step()

    run = watched(loop, Outline())
    assert run.fact("model.unowned") == ["head.weight", "head.bias"]
    assert run.fact("model.unowned_share") == pytest.approx(85 / 501)
    assert run.fact("model.foreign_params") == 2


def test_a_temperature_outside_of_the_model_is_no_stranger():
    def loop() -> None:
        model, scale = Net(), nn.Parameter(torch.ones(()))
        optimizer = torch.optim.SGD([*model.parameters(), scale], 0.01)
        for _ in range(5):
            optimizer.zero_grad()
            ce(model(X[:16]) * scale, Y[:16]).backward()
            optimizer.step()

    run = watched(loop, Outline())
    assert run.fact("model.foreign_params") == 0
    assert run.fact("model.unowned") == []


def test_two_optimizers_own_together():
    def loop() -> None:
        model = Net()
        one = torch.optim.SGD(model.encoder.parameters(), 0.01)
        two = torch.optim.SGD([*model.middle.parameters(), *model.head.parameters()], 0.01)
        for _ in range(24):
            one.zero_grad(), two.zero_grad()
            ce(model(X[:16]), Y[:16]).backward()
            one.step(), two.step()

    run = watched(loop, Outline())
    assert run.fact("model.unowned") == []
    assert run.fact("adversarial") is False  # one loss, one backward: no game


def test_parameters_updated_by_hand_are_not_unowned():
    def loop() -> None:
        model = Net()
        optimizer = torch.optim.SGD([*model.encoder.parameters(), *model.middle.parameters()], 0.01)
        for _ in range(5):
            model.zero_grad()
            ce(model(X[:16]), Y[:16]).backward()
            optimizer.step()
            with torch.no_grad():
                for p in model.head.parameters():
                    p.data -= 0.01 * p.grad

    assert watched(loop, Outline()).fact("model.unowned") == []


@pytest.mark.filterwarnings("ignore")
def test_parameters_in_two_groups_and_empty_groups_are_named():
    def loop() -> None:
        model = Net()
        other = torch.optim.SGD(model.head.parameters(), 0.01)
        optimizer = torch.optim.SGD([{"params": model.parameters()}, {"params": []}], 0.01)
        for _ in range(3):
            optimizer.zero_grad()
            ce(model(X[:16]), Y[:16]).backward()
            optimizer.step(), other.step()

    run = watched(loop, Outline())
    assert set(run.fact("optimizer.duplicates")) == {"head.weight", "head.bias"}
    assert run.fact("optimizer.empty_groups") == [1]


def test_an_optimizer_that_takes_over_from_another_holds_nothing_twice():
    def loop() -> None:
        model = Net()
        first = torch.optim.Adam(model.parameters(), 0.01)
        second = torch.optim.SGD(model.parameters(), 0.01)
        for i in range(8):
            optimizer = first if i < 4 else second
            optimizer.zero_grad()
            ce(model(X[:16]), Y[:16]).backward()
            optimizer.step()

    assert watched(loop, Outline()).fact("optimizer.duplicates") == []


# -- reach


@pytest.mark.parametrize(
    "cut",
    [
        lambda h: h.detach(),
        lambda h: h.data,
        lambda h: torch.from_numpy(h.detach().numpy()),
        lambda h: torch.tensor(h.tolist()),
    ],
)
def test_a_cut_graph_names_what_it_lost_and_where(cut):
    run = outline(lambda: Net(cut), steps=6)
    assert run.fact("model.unreachable") == ["encoder.weight", "encoder.bias"]
    assert run.fact("model.boundary") == "encoder"


def test_no_grad_around_a_part_is_a_cut_too():
    class Shut(Net):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                h = self.encoder(x)
            return self.head(torch.relu(self.middle(h)))

    run = outline(Shut, steps=6)
    assert run.fact("model.unreachable") == ["encoder.weight", "encoder.bias"]
    assert run.fact("model.boundary") == "encoder"


def test_a_whole_graph_loses_nothing():
    run = outline(Net, steps=6)
    assert run.fact("model.unreachable") == []
    assert "model.boundary" not in run.facts


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing_hides_nothing(reentrant):
    class Saving(Net):
        def forward(self, x: Tensor) -> Tensor:
            h = checkpoint(self.encoder, x.requires_grad_(), use_reentrant=reentrant)
            return self.head(torch.relu(self.middle(h)))

    run = outline(Saving, x=X.clone())
    assert run.fact("model.unreachable") == []


def test_a_target_network_in_no_optimizer_is_not_lost():
    class Student(Net):
        def __init__(self) -> None:
            super().__init__()
            self.target = nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            h = self.encoder(x)
            with torch.no_grad():
                goal = self.target(h)
            return self.head(torch.relu(self.middle(h))) + 0 * goal.mean()

    def loop() -> None:
        model = Student()
        own = [p for n, p in model.named_parameters() if not n.startswith("target")]
        fit(model, ce, X, Y, params=own, steps=6)

    run = watched(loop, Outline())
    assert run.fact("model.unreachable") == []
    assert run.fact("model.unowned") == []


def test_alternating_losses_reach_everything_together():
    class Heads(Net):
        def __init__(self) -> None:
            super().__init__()
            self.other = nn.Linear(16, 5)
            self.turn = 0

        def forward(self, x: Tensor) -> Tensor:
            self.turn += 1
            h = torch.relu(self.middle(torch.relu(self.encoder(x))))
            return self.head(h) if self.turn % 2 else self.other(h)

    assert outline(Heads).fact("model.unreachable") == []


# -- calls


class Idle(Net):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(16, 16)


def test_a_layer_that_is_never_called_is_named_after_twenty_steps():
    assert outline(Idle).fact("model.never_called") == ["spare"]
    assert "model.never_called" not in outline(Idle, steps=10).facts


def test_a_layer_used_through_its_weight_is_called():
    class Through(Net):
        def forward(self, x: Tensor) -> Tensor:
            h = torch.relu(self.middle(torch.relu(self.encoder(x))))
            return F.linear(h, self.head.weight, self.head.bias)

    assert outline(Through).fact("model.never_called") == []


def test_attention_projections_are_called():
    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            h = x[:, None].expand(-1, 4, -1)
            return self.head(self.attention(h, h, h)[0].mean(1))

    assert outline(Attends).fact("model.never_called") == []


def hidden(model: nn.Module, layers: Any) -> nn.Module:
    model.layers = layers
    model.between = lambda h: [h := layer(h) for layer in (layers.values() if isinstance(layers, dict) else layers)][-1]
    return model


@pytest.mark.parametrize("pack", [list, tuple, lambda layers: {str(i): m for i, m in enumerate(layers)}])
def test_modules_in_a_plain_container_are_hidden(pack):
    run = outline(lambda: hidden(Net(), pack([nn.Linear(16, 16), nn.Linear(16, 16)])), steps=6)
    assert run.fact("model.unregistered") == {"layers": {"class": "Linear", "count": 2, "params": 544, "in_optimizer": False}}


def test_a_module_list_hides_nothing():
    run = outline(lambda: hidden(Net(), nn.ModuleList([nn.Linear(16, 16)])), steps=6)
    assert run.fact("model.unregistered") == {}


def test_a_list_beside_registered_parameters_hides_nothing():
    """Keras keeps its layers in lists and registers their parameters itself."""

    def registered() -> nn.Module:
        model = hidden(Net(), [nn.Linear(16, 16)])
        model.all_of_them = nn.ParameterList(model.layers[0].parameters())
        return model

    assert outline(registered, steps=6).fact("model.unregistered") == {}


def test_a_teacher_kept_out_of_sight_is_meant_so():
    class Taught(Net):
        def __init__(self) -> None:
            super().__init__()
            self.teacher = [nn.Linear(8, 5)]

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                self.teacher[0](x)
            return super().forward(x)

    assert outline(Taught, steps=6).fact("model.unregistered") == {}


# -- linear layers that follow each other


def pairs(*layers: nn.Module, x: Tensor = X) -> list[list[str]]:
    return outline(lambda: nn.Sequential(*layers), steps=4, x=x).fact("model.linear_pairs")


def test_two_linear_layers_without_anything_between_are_a_pair():
    assert pairs(nn.Linear(8, 16), nn.Linear(16, 5)) == [["0", "1"]]


def test_reshaping_between_them_does_not_part_them():
    assert pairs(nn.Linear(8, 16), nn.Unflatten(1, (4, 4)), nn.Flatten(), nn.Linear(16, 5)) == [["0", "3"]]


@pytest.mark.parametrize(
    "layers",
    [
        (nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5)),
        (nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 5)),
        (nn.Linear(8, 2), nn.Linear(2, 5)),  # a bottleneck
    ],
)
def test_layers_with_something_between_or_a_bottleneck_are_no_pair(layers):
    assert pairs(*layers) == []


def test_a_functional_activation_parts_them():
    assert outline(Net, steps=4).fact("model.linear_pairs") == []


def test_convolutions_follow_each_other_only_when_they_are_dense():
    images = torch.randn(320, 2, 6, 6)
    tail = (nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))
    assert pairs(nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3), *tail, x=images) == [["0", "1"]]
    assert pairs(nn.Conv2d(2, 4, 3, groups=2), nn.Conv2d(4, 4, 1), *tail, x=images) == []


def test_what_takes_axis_0_for_time_says_what_it_was_given():
    class Reader(nn.Module):
        def __init__(self, **how) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, **how)
            self.rnn, self.head = nn.GRU(8, 4, **how), nn.Linear(4, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(self.layer(x[:, None].expand(-1, 5, -1)))[0][:, -1])

    found = outline(Reader, steps=4, batch=20).fact("model.time_first")
    assert found["rnn"] == [20, 5] and found["layer.self_attn"] == [20, 5]
    assert "model.time_first" not in outline(lambda: Reader(batch_first=True), steps=4, batch=20).facts


def test_a_softmax_over_the_batch_is_named():
    class Mixes(Net):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.gate = nn.Softmax(dim)
            self.between = lambda h: h * self.gate(h)

    assert outline(lambda: Mixes(0), steps=4, batch=20).fact("model.batch_softmax") == ["gate"]
    assert outline(lambda: Mixes(1), steps=4, batch=20).fact("model.batch_softmax") == []


# -- frozen, tied, loaded, adapted


def test_a_frozen_backbone_is_frozen_by_intent():
    def make() -> nn.Module:
        model = Net()
        for p in model.encoder.parameters():
            p.requires_grad_(False)
        model.middle.bias.requires_grad_(False)
        return model

    run = outline(make, steps=4)
    assert run.fact("model.frozen") == ["encoder.weight", "encoder.bias", "middle.bias"]
    assert run.fact("model.frozen_modules") == ["encoder"]
    assert run.fact("frozen_by_intent") is True
    assert outline(Net, steps=4).fact("frozen_by_intent") is False


def test_a_part_frozen_on_the_way_is_dated():
    def loop() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for i in range(60):
            if i == 4:
                model.encoder.requires_grad_(False)
            optimizer.zero_grad()
            ce(model(X[:16]), Y[:16]).backward()
            optimizer.step()

    run = watched(loop, Outline())
    assert run.fact("model.frozen_later").keys() == {"encoder.weight", "encoder.bias"}
    assert run.fact("model.frozen") == []


class Language(nn.Module):
    def __init__(self, tie: str = "") -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 8), nn.Linear(8, 9, bias=False)
        if tie == "share":
            self.head.weight = self.embed.weight
        if tie == "copy":
            self.head.weight = nn.Parameter(self.embed.weight.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x)).flatten(0, 1)


TOKENS = torch.randint(0, 9, (320, 6))


def language(tie: str, spoil: bool = False) -> Run:
    def loop() -> None:
        model = Language(tie)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(6):
            if spoil and i == 3:
                model.head.weight = nn.Parameter(model.head.weight.detach().clone())
            optimizer.zero_grad()
            ce(model(TOKENS[:16]), TOKENS[:16].flatten()).backward()
            optimizer.step()

    return watched(loop, Outline())


def test_shared_weights_are_tied():
    run = language("share")
    assert run.fact("model.tied") == [["embed.weight", "head.weight"]]
    assert run.fact("model.tying_broken") == []


def test_ties_that_break_on_the_way_are_named():
    assert language("share", spoil=True).fact("model.tying_broken") == [["embed.weight", "head.weight"]]


def test_a_copy_instead_of_a_share_is_a_broken_tie():
    assert language("copy").fact("model.tying_broken") == [["embed.weight", "head.weight"]]


def test_two_separate_tables_are_not_tied():
    run = language("")
    assert run.fact("model.tied") == run.fact("model.tying_broken") == []
    assert run.fact("model.embeddings") == ["embed.weight"]


def test_a_model_that_declares_a_tie_it_does_not_have():
    class Config:
        tie_word_embeddings = True

    class Declares(Language):
        config = Config()

        def get_input_embeddings(self) -> nn.Module:
            return self.embed

        def get_output_embeddings(self) -> nn.Module:
            return self.head

    assert anatomy.declared_ties([Declares()]) == [["embed.weight", "head.weight"]]
    assert anatomy.declared_ties([Declares("share")]) == []


def test_a_partial_load_says_what_it_left_out():
    def make() -> nn.Module:
        model = Net()
        state = {k.replace("head", "classifier"): v for k, v in Net().state_dict().items()}
        model.load_state_dict(state, strict=False)
        return model

    run = outline(make, steps=4)
    loaded = run.fact("model.loaded")
    assert loaded["missing"] == ["head.weight", "head.bias"]
    assert loaded["unexpected"] == ["classifier.weight", "classifier.bias"]
    assert loaded["unloaded_share"] == pytest.approx(85 / 501)
    assert run.fact("finetune") is True


def test_a_full_load_leaves_nothing_out_and_a_fresh_model_is_not_tuned():
    def make() -> nn.Module:
        model = Net()
        model.load_state_dict(Net().state_dict())
        return model

    assert outline(make, steps=4).fact("model.loaded")["unloaded_share"] == 0.0
    fresh = outline(Net, steps=4)
    assert "model.loaded" not in fresh.facts
    assert fresh.fact("finetune") is False


@pytest.mark.parametrize(("share", "gain", "tuned"), [(1.0, 1.0, False), (0.2, 1.0, False), (1.0, 20.0, True)])
def test_only_a_mean_far_below_chance_is_a_sign_of_earlier_training(
    share: float, gain: float, tuned: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    net = nn.Linear(8, 10)
    with torch.no_grad():
        net.weight *= gain
        y = net(X).argmax(1) if tuned else torch.randint(0, 10, (len(X),))
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    with traindx.watch(net, opt, dir=tmp_path / "r") as dx:
        for _ in range(6):
            opt.zero_grad()
            (F.cross_entropy(net(X), y) * share).backward()  # a share: of micro-batches, or of the ranks' targets
            opt.step()
    assert bool(dx.run().fact("finetune")) is tuned


class Lora(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base = base
        base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.down.T @ self.up.T


def test_low_rank_pairs_are_adapters_whatever_their_names():
    def make() -> nn.Module:
        model = Net()
        model.middle = Lora(model.middle)
        return model

    run = outline(make, steps=6)
    assert sorted(run.fact("model.adapters")) == ["middle.down", "middle.up"]
    assert run.fact("model.adapter_b_zero") == []
    assert run.fact("finetune") is True


def test_an_adapter_that_never_moved_from_zero_is_inert():
    def loop() -> None:
        model = Net()
        model.middle = Lora(model.middle)
        fit(model, ce, X, Y, params=model.head.parameters(), steps=4)

    assert watched(loop, Outline()).fact("model.adapter_b_zero") == ["middle.up"]


def test_ordinary_layers_are_no_adapters():
    assert anatomy.adapters([Net()]) == []
    frozen = Net()
    frozen.encoder.requires_grad_(False)
    assert anatomy.adapters([frozen]) == []


# -- players


def test_two_players_are_told_from_two_halves():
    class Holder:
        def __init__(self, *params: Tensor) -> None:
            self.param_groups = [{"params": list(params)}]

    a, b = Holder(torch.zeros(1)), Holder(torch.zeros(1))
    game = [(id(o), i) for i, o in enumerate([a, b] * 4)]
    assert alternating(game, [a, b])
    halves = [(id(o), i // 2) for i, o in enumerate([a, b] * 4)]
    assert not alternating(halves, [a, b])
    assert not alternating(game, [a])


def test_a_gan_is_adversarial_and_wholly_reached():
    def loop() -> None:
        maker, judge = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
        for_maker, for_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
        for i in range(24):
            real, noise = X[:16], torch.randn(16, 4)
            for_judge.zero_grad()
            d = F.binary_cross_entropy_with_logits(judge(real), torch.ones(16, 1))
            (d + F.binary_cross_entropy_with_logits(judge(maker(noise).detach()), torch.zeros(16, 1))).backward()
            for_judge.step()
            for_maker.zero_grad()
            F.binary_cross_entropy_with_logits(judge(maker(noise)), torch.ones(16, 1)).backward()
            for_maker.step()

    run = watched(loop, Outline())
    assert run.fact("adversarial") is True
    assert run.fact("model.unreachable") == []
    assert run.fact("model.unowned") == []
    assert run.fact("model.foreign_params") == 0


# -- attention masks


class Attention(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.embed, self.qkv, self.head, self.how = nn.Embedding(9, 8), nn.Linear(8, 24), nn.Linear(8, 9), how

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.embed(x)).chunk(3, -1)
        n = x.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        if self.how == "fused":
            h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]
        elif self.how == "fused mask":
            h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=~later)[:, 0]
        elif self.how == "fused open":
            h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        else:
            scores = q @ k.transpose(1, 2) / 8**0.5
            if self.how != "hand open":
                shut = {"off by one": later.triu(2), "padding only": torch.zeros(1, n, dtype=torch.bool)}.get(self.how, later)
                scores = scores.masked_fill(shut, float("-inf"))
            h = scores.softmax(-1) @ v
        return self.head(h).flatten(0, 1)


@pytest.mark.parametrize(
    ("how", "kind"),
    [("fused", "causal"), ("fused mask", "causal"), ("fused open", "none"), ("hand", "causal"), ("hand open", "none")],
)
def test_how_attention_was_masked_is_read_off_the_graph(how, kind):
    run = outline(lambda: Attention(how), steps=4, loss=lambda o, y: ce(o, y.flatten()), x=TOKENS, y=TOKENS)
    masks = run.fact("model.attention_masks")
    assert masks[kind] > 0
    assert sum(masks.values()) == masks[kind]


def test_a_mask_that_leaves_the_future_open_is_told_from_a_causal_one():
    def masks(how: str):
        run = outline(lambda: Attention(how), steps=4, loss=lambda o, y: ce(o, y.flatten()), x=TOKENS, y=TOKENS)
        return run.fact("model.attention_masks")

    off = masks("off by one")
    assert off["open"] > 0 and off["ahead"] == 1 and not off["causal"] and not off["masked"]
    assert masks("padding only")["open"] > 0


def test_a_softmax_over_classes_is_no_attention():
    assert "model.attention_masks" not in outline(lambda: nn.Sequential(Net(), nn.Softmax(1)), steps=4).facts


# -- the promise


def test_walking_the_graph_changes_nothing():
    def weights(*probes: Any) -> Tensor:
        box: list[Tensor] = []

        def loop() -> None:
            model = Net()
            fit(model, ce, X, Y, steps=12)
            box.append(torch.cat([p.detach().flatten() for p in model.parameters()]))

        watched(loop, *probes)
        return box[0]

    assert torch.equal(weights(), weights(Outline()))


def test_a_model_that_changes_while_it_trains_is_looked_at_again():
    def loop() -> None:
        model = Net()
        fit(model, ce, X, Y, steps=3)
        bigger = copy.deepcopy(model)
        bigger.extra = nn.Linear(16, 16)
        fit(bigger, ce, X, Y, steps=3)

    assert watched(loop, Outline()).fact("model.class") == "Net"


def test_dropouts_that_drop_nothing_are_told_in_the_outline():
    run = outline(lambda: nn.Sequential(nn.Linear(X.shape[1], 8), nn.Dropout(0.0), nn.Dropout(0.5), nn.Linear(8, 10)))
    assert [bool(row.get("inert")) for row in run.fact("model.outline")] == [False, True, False, False]


@pytest.mark.parametrize("way", ["view", "permute"])
def test_a_view_in_place_of_a_permute_is_seen(way):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

        def forward(self, x):
            x = x.view(-1, 3, 6, 6) if way == "view" else x.permute(0, 3, 1, 2).contiguous()
            return self.head(self.conv(x).mean((2, 3)))

    x, y = torch.rand(64, 6, 6, 3), torch.randint(0, 2, (64,))
    run = watched(lambda: fit(Net(), F.cross_entropy, x, y), Outline())
    seen = run.fact("model.scrambled")
    assert seen == ({"conv": {"from": [16, 6, 6, 3], "to": [16, 3, 6, 6]}} if way == "view" else None)


def test_a_queue_of_negatives_that_begins_easy_is_no_fine_tuning(tmp_path: Path) -> None:
    net = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with traindx.watch(net, optimizer, dir=tmp_path / "r") as dx:
        for _ in range(6):
            logits = torch.cat([net(X).norm(dim=1, keepdim=True) + 8, torch.zeros(len(X), 63)], dim=1)
            F.cross_entropy(logits, torch.zeros(len(X), dtype=torch.long)).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not dx.run().fact("finetune")
