"""Token batches: own input as target, padding in the loss, end tokens; from what the loss call got."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from probes.watched import watched
from traindx.probe import Forward
from traindx.probes.read.common.special_ids import Vocabulary, agreed, looked_up, said_beside, said_by
from traindx.probes.read.common.token_batches import all_ids_of
from traindx.probes.read.common.token_ids import (
    Stated,
    TokenBatch,
    double_bos,
    empty_rows,
    end_id,
    eos_share,
    frequencies_apart,
    pad_id,
    pad_label_share,
    pad_position_share,
    prompt_share,
    stated_pad,
    target_share,
    token_facts,
)
from traindx.probes.read.loss.contract import Contract
from traindx.run import Run

PAD, EOS, VOCAB = 0, 1, 20


def sentences(n: int = 32, width: int = 12, eos: bool = True, pad: int = PAD) -> tuple[np.ndarray, np.ndarray]:
    """(ids, attention mask) of sentences of 4 to 9 words, an end token, and padding."""
    rng = np.random.default_rng(0)
    ids, mask = np.full((n, width), pad), np.zeros((n, width), int)
    for row, length in enumerate(rng.integers(4, 10, n)):
        ids[row, :length] = rng.integers(2, VOCAB, length)
        if eos:
            ids[row, length] = EOS
        mask[row, : length + eos] = 1
    return ids, mask


def shifted(ids: np.ndarray, mask: np.ndarray, hide: bool = True) -> np.ndarray:
    """Next-token targets; padding ignored when `hide`."""
    return np.where(mask[:, 1:] == 1, ids[:, 1:], -100) if hide else ids[:, 1:]


def batch(hide: bool = True, masked: bool = True, **options: Any) -> TokenBatch:
    ids, mask = sentences(**options)
    return TokenBatch(ids, shifted(ids, mask, hide), mask if masked else None, -100)


def test_next_token_prediction_is_told_from_predicting_the_input():
    right = batch()
    assert target_share([right], 1) == 1.0
    assert target_share([right], 0) < 0.2
    ids, mask = sentences()
    copied = TokenBatch(ids, np.where(mask == 1, ids, -100), mask, -100)
    assert target_share([copied], 0) == 1.0


@pytest.mark.parametrize("masked", [True, False])
def test_padding_is_known_from_the_mask_or_from_the_tails(masked):
    assert pad_id([batch(masked=masked)]) == (PAD, True)


def test_sentences_of_one_length_have_no_padding():
    ids = np.random.default_rng(0).integers(2, VOCAB, (32, 12))
    assert pad_id([TokenBatch(ids, None, None, -100)]) == (None, False)


def test_short_tails_of_one_length_are_padding_where_others_have_none_and_the_id_stands_nowhere_else():
    ids = np.random.default_rng(0).integers(1, VOCAB, (64, 12))
    ids[:40, -2:] = PAD

    def told(tokens: np.ndarray) -> int | None:
        return pad_id([TokenBatch(tokens, None, None, -100)])[0]

    assert told(ids) == PAD
    every, inside, few = ids.copy(), ids.copy(), ids[30:50]
    every[:, -2:] = PAD  # a fixed form: every sequence ends so
    inside[50, 3] = PAD  # a token like others
    assert told(every) is None and told(inside) is None and told(few) is None


def test_padding_beyond_the_input_counts_as_padding():
    tokens = np.array([[5, 6, 7, PAD, PAD, PAD], [5, 6, 7, 8, 9, 2]])
    targets = np.array([[6, 7, PAD, PAD, PAD, PAD], [6, 7, 8, 9, 2, 3]])
    assert pad_label_share([TokenBatch(tokens, targets, None, -100)], PAD) == pytest.approx(3 / 12)


@pytest.mark.parametrize("masked", [True, False])
def test_padding_that_is_trained_on_is_counted(masked):
    assert pad_label_share([batch(hide=True, masked=masked)], PAD) == 0.0
    assert pad_label_share([batch(hide=False, masked=masked)], PAD) > 0.2


@pytest.mark.parametrize("masked", [True, False])
def test_tags_at_padding_are_told_by_position(masked):
    ids, mask = sentences()
    tags = np.where(mask == 1, ids % 3 + 1, 0)
    seen = mask if masked else None
    share = pad_position_share([TokenBatch(ids, tags, seen, -100)], PAD)
    assert share == pytest.approx(float((mask == 0).mean()))
    assert pad_position_share([TokenBatch(ids, np.where(mask == 1, tags, -100), seen, -100)], PAD) == 0.0
    varied = np.where(mask == 1, tags, np.arange(tags.size).reshape(tags.shape) % 3)
    assert pad_position_share([TokenBatch(ids, varied, seen, -100)], PAD) is None  # what stands there is no padding
    assert pad_position_share([batch(hide=False, masked=masked)], PAD) is None  # next tokens are told by their id


def test_the_end_token_is_the_last_real_one_of_almost_every_sentence():
    assert end_id([batch()], PAD) == EOS
    assert end_id([batch(eos=False)], PAD) is None


def test_an_end_token_that_doubles_as_padding_and_is_masked_is_never_learned():
    ids, mask = sentences(pad=EOS)
    masked_by_id = np.where(ids[:, 1:] == EOS, -100, ids[:, 1:])
    sick = TokenBatch(ids, masked_by_id, mask, -100)
    assert eos_share([sick], EOS, EOS) == 0.0
    healed = TokenBatch(ids, shifted(ids, mask), mask, -100)
    assert eos_share([healed], EOS, EOS) == 1.0
    assert pad_label_share([healed], EOS) == 0.0


def test_sequences_whose_input_reaches_the_edge_and_whose_targets_do_not_are_whole():
    ids = np.array([[5, 6, 7], [5, 8, 9]] * 6)
    targets = np.array([[6, 7, PAD], [8, 9, PAD]] * 6)
    assert eos_share([TokenBatch(ids, targets, None, PAD)], EOS, PAD) == 0.0
    cut = np.array([[6, 7, 8], [8, 9, 4]] * 6)
    assert eos_share([TokenBatch(ids, cut, None, PAD)], EOS, PAD) is None


def test_what_the_model_states_is_believed():
    found = token_facts([batch()], Stated(VOCAB, PAD, EOS, bos=5, unk=7))
    assert found["data.token"]["vocab"] == VOCAB
    assert found["data.token"]["eos_id"] == EOS
    assert 0 < found["data.token"]["unk_share"] < 0.2
    assert found["data.token"]["double_bos"] is False


def test_a_doubled_beginning_is_seen_with_or_without_its_id():
    ids, mask = sentences()
    twice = np.concatenate([np.full((len(ids), 2), 19), np.where(ids == 19, 18, ids)], 1)
    once = twice[:, 1:]
    wide = np.concatenate([np.ones((len(ids), 2), int), mask], 1)
    for bos in (19, None):
        assert double_bos([TokenBatch(twice, None, wide, -100)], bos, PAD)
        assert not double_bos([TokenBatch(once, None, wide[:, 1:], -100)], bos, PAD)
    left = np.where(wide[:, ::-1] == 1, twice, 19)  # padding on the left that has the same id
    assert not double_bos([TokenBatch(left, None, wide[:, ::-1], -100)], 19, 19)
    assert not double_bos([TokenBatch(twice, None, None, -100)], None, 19)


def test_padding_that_is_named_beside_the_model_must_stand_at_the_edges():
    ids, _ = sentences()
    assert stated_pad(Stated(VOCAB, PAD, pad_named=True), [ids]) == PAD
    assert stated_pad(Stated(VOCAB, 7, pad_named=True), [ids]) is None  # some other thing is called PAD
    assert stated_pad(Stated(VOCAB, 7), [ids]) == 7


def test_sequences_without_a_target_are_counted():
    ids, mask = sentences()
    targets = shifted(ids, mask)
    targets[:8] = -100
    assert empty_rows([TokenBatch(ids, targets, mask, -100)], PAD) == {"rows": 32, "empty": 8, "padded": True}
    filled = np.where(np.arange(32)[:, None] < 8, 0, mask)  # rows that only fill the batch up
    assert empty_rows([TokenBatch(ids, targets, filled, -100)], PAD) == {"rows": 24, "empty": 0, "padded": True}
    other = np.where(np.random.default_rng(0).random(ids.shape) < 0.15, ids, -100)  # of words that the model was not shown
    assert empty_rows([TokenBatch(np.where(other >= 0, 3, ids), other, mask, -100)], PAD) is None


def test_a_prompt_that_counts_is_told_by_the_mark_in_front_of_the_answers():
    rng, ids = np.random.default_rng(1), np.zeros((32, 12), int)
    for row, n in zip(ids, rng.integers(2, 6, 32)):
        row[: n + 4] = [*rng.integers(5, VOCAB, n), 4, *rng.integers(5, VOCAB, 2), EOS]  # question, mark, answer, end
    mask = np.asarray(ids != PAD, int)
    everything = shifted(ids, mask)
    answers = np.where(np.arange(1, 12) > (ids == 4).argmax(1)[:, None], everything, -100)
    whole = prompt_share([TokenBatch(ids, everything, mask, -100)], PAD)
    assert whole is not None and 0.4 < whole < 0.7
    assert prompt_share([TokenBatch(ids, answers, None, -100)], PAD) == 0.0
    assert prompt_share([TokenBatch(ids[:8], everything[:8], mask[:8], -100)], PAD) is None  # too few to tell
    stops = np.where(ids == 4, 6, ids)
    stops[np.arange(32), (ids == EOS).argmax(1) - 1] = 4  # a full stop in front of the end is no mark
    assert prompt_share([TokenBatch(stops, shifted(stops, mask), mask, -100)], PAD) is None
    assert prompt_share([batch()], PAD) is None


class Words:
    """A tokenizer as people write them."""

    def __init__(self) -> None:
        self.stoi = {"<pad>": 0, "<unk>": 3, **{f"w{i}": i + 4 for i in range(12)}}
        self.eos_token_id = 2

    @property
    def bos_token_id(self) -> int:
        raise ValueError("none was set")


def test_special_ids_are_asked_of_tokenizers_tables_and_collate_functions():
    class Tokenizer(Words):
        pass

    words = Tokenizer()

    def collate(rows: Any) -> Any:
        return words, rows

    class Set:
        pass

    assert said_by(words) == {"pad": 0, "unk": 3, "eos": 2}
    assert said_by(Words()) == {"eos": 2}  # only a class that is called so is looked into
    loader = Set()
    loader.dataset, loader.collate_fn = Set(), partial(collate)  # type: ignore[attr-defined]
    assert agreed(said_beside(nn.Linear(2, 2), loader)) == {"pad": 0, "unk": 3, "eos": 2}
    loader.dataset.eos_id = 5  # type: ignore[attr-defined]
    assert agreed(said_beside(nn.Linear(2, 2), loader)) == {"pad": 0, "unk": 3}  # they contradict one another


def test_constants_at_the_top_of_the_models_module_say_what_they_are_called():
    asked = Vocabulary()
    asked.ask(Speaker())
    said = asked.stated(VOCAB - 1)
    assert (said.pad, said.eos, said.eos_named) == (PAD, EOS, True)


def test_an_id_of_a_config_that_is_beyond_the_table_is_of_another_vocabulary():
    model = nn.Sequential(nn.Embedding(VOCAB, 4))
    model.config = SimpleNamespace(eos_token_id=50256, pad_token_id=None)  # type: ignore[assignment]
    asked = Vocabulary()
    asked.ask(model)
    assert asked.stated(VOCAB - 1).eos is None


def test_rows_that_were_added_to_a_frozen_table_stand_out():
    table = nn.Embedding(34, 8)
    with torch.no_grad():
        table.weight[:32] *= 0.1
    model = nn.Sequential(table)
    asked = Vocabulary()
    asked.ask(model)
    assert asked.strangers(np.arange(34)) is None  # they are trained
    table.weight.requires_grad_(False)
    found = asked.strangers(np.arange(34))
    assert found is not None and found["ids"] == [32, 33] and found["name"] == "0" and found["ratio"] > 3
    assert asked.strangers(np.arange(32)) is None  # and not in use
    with torch.no_grad():
        table.weight[0] = 0  # padding
        table.weight[32:] = table.weight[1:32].mean(0) + 0.05
    assert asked.strangers(np.arange(34)) is None


def test_the_line_that_looks_words_up_says_which_id_is_unknown():
    assert looked_up("x = [self.vocab.get(w.lower(), UNK) for w in ws]", {"UNK": 3}) == {3}
    assert looked_up("stoi.get(c, 0)", {"stoi": {"a": 0, "b": 1}}) == set()  # the first letter
    assert looked_up("n = counts.get(word, 0) + 1; lr = config.get('lr', 1)", {"counts": {"a": 2.5}}) == set()
    assert looked_up("stoi.get(c, 0); stoi.get(t, 5)", {"stoi": {"a": 2}}) == {0, 5}


class Speaker(nn.Module):
    """A language model whose loss is inside (`own`) or outside of it."""

    def __init__(self, own: bool = False, shift: bool = True) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, 8), nn.Linear(8, VOCAB)
        self.own, self.shift = own, shift

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
        logits = self.head(self.embed(input_ids))
        if not self.own or labels is None:
            return logits
        by = 1 if self.shift else 0
        return F.cross_entropy(logits[:, : logits.shape[1] - by].flatten(0, 1), labels[:, by:].flatten())


def spoken(own: bool, shift: bool = True, hide: bool = True) -> Run:
    ids, mask = (torch.tensor(a) for a in sentences())
    labels = torch.where(mask == 1, ids, -100) if hide else ids

    def loop() -> None:
        model = Speaker(own, shift)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(6):
            optimizer.zero_grad()
            if own:
                model(input_ids=ids, attention_mask=mask, labels=labels).backward()
            else:
                logits, by = model(ids, attention_mask=mask), 1 if shift else 0
                F.cross_entropy(logits[:, : logits.shape[1] - by].flatten(0, 1), labels[:, by:].flatten()).backward()
            optimizer.step()

    return watched(loop, Contract())


@pytest.mark.parametrize("own", [True, False])
def test_a_language_model_is_seen_through_whether_the_loss_is_inside_or_not(own):
    run = spoken(own)
    assert run.fact("loss.next_target_share") == 1.0
    assert run.fact("loss.self_target_share") < 0.2
    assert run.fact("data.pad_label_share") == 0.0
    assert run.fact("data.eos_share") == 1.0
    assert run.fact("data.token")["pad_id"] == PAD


def test_a_mask_and_labels_that_are_given_by_place_are_known_by_the_names_of_the_forward():
    ids, mask = (torch.tensor(a) for a in sentences())
    forward = Forward(1, Speaker(), (ids, mask, ids), {}, None, "train", True, True)
    [(tokens, kept)] = all_ids_of(forward)
    assert tokens is ids and kept is mask
    plain = Forward(1, nn.Identity(), (ids, ids + 1), {}, None, "train", True, True)
    assert [t is ids for t, _ in all_ids_of(plain)] == [True, False]


@pytest.mark.parametrize("own", [True, False])
def test_a_missing_shift_shows_as_predicting_the_input(own):
    assert spoken(own, shift=False).fact("loss.self_target_share") == 1.0


@pytest.mark.parametrize("how", ["mul", "fill", "where"])
@pytest.mark.parametrize("hide", [True, False])
def test_log_probabilities_that_are_picked_by_hand_are_targets_too(how, hide):
    ids, mask = (torch.tensor(a) for a in sentences())
    there = mask[:, 1:] if hide else torch.ones_like(mask[:, 1:])

    def loop() -> None:
        model = Speaker()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            picked = model(ids, attention_mask=mask)[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
            if how == "mul":
                picked = picked * there
            elif how == "fill":
                picked = picked.masked_fill(there == 0, 0.0)
            else:
                picked = torch.where(there > 0, picked, torch.zeros(()))
            (-F.logsigmoid(picked.sum(1) / 10).mean()).backward()
            optimizer.step()

    run = watched(loop, Contract())
    assert run.fact("loss.next_target_share") == 1.0
    assert (run.fact("data.pad_label_share") > 0.2) is not hide


class Fused(torch.autograd.Function):
    """Log-probabilities of the next tokens, made in one piece: no graph shows what was picked."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        logs = logits[:, :-1].log_softmax(-1)
        ctx.save_for_backward(logits)
        return logs.gather(-1, labels[:, 1:, None].clamp(min=0)).squeeze(-1) * (labels[:, 1:] >= 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        return torch.zeros_like(logits), None


@pytest.mark.parametrize("early", [0, 1])
@pytest.mark.parametrize("text", [True, False])
def test_labels_of_a_head_that_is_fused_with_its_loss_are_shifted_as_it_shifts_them(text, early):
    ids, mask = (torch.tensor(a) for a in sentences())
    labels = torch.where(mask == 1, ids, -100)
    if early:  # the script has shifted them already
        labels = torch.cat((labels[:, 1:], torch.full((len(ids), 1), -100)), 1)

    class Model(Speaker):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
            return -Fused.apply(super().forward(input_ids), labels).sum()

    def loop() -> None:
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            given = labels if text else (ids * 7 + 3) % 5
            (model(input_ids=ids, attention_mask=mask, labels=given) / 10).backward()
            optimizer.step()

    run = watched(loop, Contract())
    if not text:  # tags of another alphabet
        assert run.fact("loss.next_target_share") is None and run.fact("data.eos_share") is None
    elif early:
        assert run.fact("loss.second_target_share") > 0.9
    else:
        assert run.fact("loss.next_target_share") == 1.0 and run.fact("data.eos_share") == 1.0


def test_padding_in_the_labels_shows():
    assert spoken(True, hide=False).fact("data.pad_label_share") > 0.2


def test_class_ids_beside_integer_features_are_no_tokens():
    def loop() -> None:
        model = nn.Linear(12, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randint(0, 5, (8, 12)).float()), torch.randint(0, 3, (8,))).backward()
            optimizer.step()

    assert "data.token" not in watched(loop, Contract()).facts


def test_unequal_micro_batches_are_measured():
    ids, mask = (torch.tensor(a) for a in sentences())

    def loop(rows: list[slice], weighed: bool = False) -> Any:
        def inner() -> None:
            model = Speaker()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(4):
                optimizer.zero_grad()
                for part in rows:
                    target = torch.where(mask[part] == 1, ids[part], -100)
                    loss = F.cross_entropy(model(ids[part])[:, :-1].flatten(0, 1), target[:, 1:].flatten())
                    (loss * mask[part][:, 1:].sum() / mask[:, 1:].sum() if weighed else loss / len(rows)).backward()
                optimizer.step()

        return inner

    weighed = watched(loop([slice(0, 2), slice(2, 32)], weighed=True), Contract())
    assert weighed["batch/micro_valid_cv"].last == 0  # each counts as many tokens as it has
    assert weighed["loss/train"].last == pytest.approx(3.0, abs=0.5)
    even = watched(loop([slice(0, 16), slice(16, 32)]), Contract())
    odd = watched(loop([slice(0, 2), slice(2, 32)]), Contract())
    assert even["batch/micro_valid_cv"].last < 0.2
    assert odd["batch/micro_valid_cv"].last > 1
    assert np.isfinite(odd["loss/token_mean"].last)


@pytest.mark.parametrize(("whole", "spread"), [(False, 1.0), (True, 0.0)])
def test_unequal_micro_batches_of_a_loss_by_hand_are_measured(whole, spread):
    ids, mask = (torch.tensor(a) for a in sentences())

    def loop() -> None:
        model = Speaker()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            for part in (slice(0, 2), slice(2, 32)):
                there = mask[part][:, 1:].float()
                nll = -model(ids[part])[:, :-1].log_softmax(-1).gather(-1, ids[part][:, 1:, None]).squeeze(-1)
                count = mask[:, 1:].sum() if whole else there.sum()
                loss = (nll * there).sum() / count
                (loss if whole else loss / 2).backward()
            optimizer.step()

    run = watched(loop, Contract())
    assert (run["batch/micro_valid_cv"].last > 1) == (spread > 0)
    assert run["loss/train"].last == pytest.approx(3.0, abs=0.5)  # however it is divided
    if not whole:
        gap = abs(run["loss/token_mean"].last - run["loss/train"].last)
        assert 0 < gap < 0.2 * run["loss/train"].last


def test_an_end_token_that_is_also_the_padding_goes_with_it():
    ids, mask = sentences(eos=False)
    lost = TokenBatch(ids, shifted(ids, mask), None, -100)
    told = token_facts([lost], Stated(vocab=VOCAB))
    assert told["data.token"]["eos_id"] is None and told["data.eos_share"] < 0.5
    ends = mask.sum(1)  # the same id, and the first of the tail counted: it ends the sequence
    targets = shifted(ids, mask)
    targets[np.arange(len(ids)), ends - 1] = PAD
    assert token_facts([TokenBatch(ids, targets, None, -100)], Stated(vocab=VOCAB))["data.eos_share"] == 1.0


def test_one_id_everywhere_is_told_from_padding():
    ids, _ = sentences()
    assert token_facts([TokenBatch(ids, None, None, -100)], Stated(vocab=VOCAB))["data.token"]["top_share"] < 0.2
    unknown = np.where(
        np.random.default_rng(1).random((32, 12)) < 0.8, 1, np.random.default_rng(2).integers(2, VOCAB, (32, 12))
    )
    assert token_facts([TokenBatch(unknown, None, None, -100)], Stated(vocab=VOCAB))["data.token"]["top_share"] > 0.5


@pytest.mark.parametrize("known", [0.8, 0.3])
def test_padding_is_no_part_of_a_sequence(known: float) -> None:
    """Whatever the padding, the share of one id is its share of the tokens that stand for something."""
    rng = np.random.default_rng(0)
    ids = np.where(rng.random((64, 40)) < known, rng.integers(2, 60, (64, 40)), 1)
    ids[np.arange(40) >= rng.integers(8, 30, 64)[:, None]] = 0
    top = token_facts([TokenBatch(ids, None, None, -100)], Stated(vocab=60, pad=0))["data.token"]["top_share"]
    assert abs(top - (1 - known)) < 0.05


@pytest.mark.parametrize("width", [5, 12])  # of the source; the target is 11 wide
def test_of_two_sequences_the_one_that_is_written_is_looked_at(width):
    ids = torch.tensor(sentences()[0])
    source = torch.randint(2, VOCAB, (32, width))

    class Translator(Speaker):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
            return self.head(self.embed(target) + self.embed(source).mean(1, keepdim=True))

    def loop() -> None:
        model = Translator()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(6):
            optimizer.zero_grad()
            F.cross_entropy(model(source, ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
            optimizer.step()

    run = watched(loop, Contract())
    assert run.fact("loss.next_target_share") == 1.0 and run.fact("data.pad_label_share") > 0.2


def test_a_vocabulary_of_its_own_for_validation_is_seen_in_the_frequencies():
    rng = np.random.default_rng(3)
    words = np.minimum(rng.zipf(1.5, (200, 12)), VOCAB) - 1
    table = rng.permutation(VOCAB)
    same, other = words[rng.permutation(200)], table[words]
    assert frequencies_apart(words, same)["distance"] < 0.05
    apart = frequencies_apart(words, other)
    assert apart["distance"] > 0.5 and apart["sorted"] < 0.05
    assert frequencies_apart(words[:10], other) is None


def test_validation_tokens_are_kept_for_comparison():
    ids, table = torch.tensor(sentences(n=400)[0]), torch.randperm(VOCAB)

    def loop() -> None:
        model = Speaker()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            for part in ids.split(100):
                optimizer.zero_grad()
                F.cross_entropy(model(part)[:, :-1].flatten(0, 1), part[:, 1:].flatten()).backward()
                optimizer.step()
            with torch.no_grad():
                for part in table[ids].split(100):
                    F.cross_entropy(model(part)[:, :-1].flatten(0, 1), part[:, 1:].flatten()).item()

    assert watched(loop, Contract()).fact("data.token_shift")["distance"] > 0.3
