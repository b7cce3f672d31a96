"""What is fed: order, overlap, conflicts, scale, bad values, labels, with a loader and without."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

import traindx
from probes.watched import fit, watched
from traindx.probes.drive.plan import Plan
from traindx.probes.read.common import batches
from traindx.probes.read.data import contents
from traindx.probes.read.data.data import Data
from traindx.probes.read.data.feeds import Feed, describe
from traindx.record import read
from traindx.run import Run

G = torch.Generator().manual_seed(1)
X = torch.randn(512, 8, generator=G)
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()


def net(inputs: int = 8) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 3))


def train(loader: Any, val: Any = None, epochs: int = 3, model: nn.Module | None = None, batches: Any = None) -> None:
    model = model or net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(epochs):
        model.train()
        for batch in loader:
            x, y = batches(batch) if batches else batch
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, y in val or ():
                F.cross_entropy(model(x), y)


def fed(loader: Any, val: Any = None, *, budget: float | None = None, **options: Any) -> Run:
    return watched(lambda: train(loader, val, **options), Data(), budget=budget)


def loader(x: Tensor = X, y: Tensor = Y, size: int = 32, **options: Any) -> DataLoader:
    return DataLoader(TensorDataset(x, y), size, **options)


# -- loaders


def test_a_shuffled_loader_is_described():
    run = fed(loader(shuffle=True))
    about = run.fact("data.loader")
    assert (about["shuffle"], about["batch_size"], about["length"], about["samples"]) == (True, 32, 16, 512)
    assert run.fact("data.steps_per_epoch") == 16
    assert run.fact("data.samples_per_epoch") == 512
    assert run.fact("data.order_repeats") is False
    assert run.fact("data.brought_by") == "loader"
    assert run.fact("data.fetched") == {"batches": 48, "iterators": 3}
    assert run.fact("data.label_dispersion") < 2
    assert set(run["batch/size"].values) == {32}


@pytest.mark.parametrize(
    ("make", "shuffle"),
    [
        (lambda d: DataLoader(d, 4), False),
        (lambda d: DataLoader(d, 4, shuffle=True), True),
        (lambda d: DataLoader(d, 4, sampler=WeightedRandomSampler(torch.ones(8), 8)), True),
        (lambda d: DataLoader(d, batch_sampler=[[0, 1], [2, 3]]), None),
        (lambda d: [1, 2], None),
    ],
)
def test_shuffling_is_known_from_the_sampler_or_not_at_all(make, shuffle):
    assert describe(make(TensorDataset(torch.arange(8))))["shuffle"] is shuffle


def test_class_sorted_batches_show_in_their_dispersion():
    order = Y.argsort(stable=True)
    run = fed(loader(X[order], Y[order]))
    assert run.fact("data.label_dispersion") > 10
    assert run.fact("data.label_dispersion_p") < 1e-12
    assert run.fact("data.order_repeats") is True


def test_an_unsorted_fixed_order_repeats_but_is_not_dispersed():
    run = fed(loader())
    assert run.fact("data.order_repeats") is True
    assert run.fact("data.label_dispersion") < 2


def test_a_fixed_order_of_augmented_samples_is_seen_from_the_labels():
    class Noisy(Dataset):
        def __len__(self) -> int:
            return 512

        def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
            return X[i] + torch.randn(8), Y[i]

    assert fed(DataLoader(Noisy(), 32)).fact("data.order_repeats") is True
    assert fed(DataLoader(Noisy(), 32, shuffle=True)).fact("data.order_repeats") is False


# -- contents


def test_validation_samples_that_were_trained_on_are_counted():
    run = fed(loader(X[:400], Y[:400], shuffle=True), loader(torch.cat([X[400:], X[:7]]), torch.cat([Y[400:], Y[:7]])))
    assert run.fact("data.shared") == 7
    assert run.fact("data.seen") == {"train": 400, "val": 119}


def test_a_clean_split_shares_nothing():
    run = fed(loader(X[:400], Y[:400], shuffle=True), loader(X[400:], Y[400:]))
    assert run.fact("data.shared") == 0
    assert not run.fact("data.same_set")


def test_validating_on_the_very_training_set_is_a_fact():
    data = TensorDataset(X, Y)
    run = fed(DataLoader(data, 32, shuffle=True), DataLoader(data, 64))
    assert run.fact("data.same_set") is True


def test_scoring_the_training_set_beside_a_real_validation_is_fine():
    data = TensorDataset(X[:400], Y[:400])
    both = [DataLoader(data, 64), loader(X[400:], Y[400:])]

    def loop() -> None:
        model = net()
        for part in both:
            train(DataLoader(data, 32, shuffle=True), part, epochs=1, model=model)

    run = watched(loop, Data())
    assert not run.fact("data.same_set")
    assert run.fact("data.shared") == 0


def test_equal_inputs_with_different_labels_are_conflicts():
    x = torch.cat([X[:200], X[:10]])
    y = torch.cat([Y[:200], (Y[:10] + 1) % 3])
    assert fed(loader(x, y, shuffle=True)).fact("data.conflicts") == 10
    healed = fed(loader(x, torch.cat([Y[:200], Y[:10]]), shuffle=True))
    assert healed.fact("data.conflicts") == 0
    assert healed.fact("data.duplicate_share") == pytest.approx(10 / 210)


def test_labels_drawn_anew_each_epoch_are_conflicts_too():
    class Lottery(Dataset):
        def __len__(self) -> int:
            return 128

        def __getitem__(self, i: int) -> tuple[Tensor, int]:
            return X[i], int(torch.randint(0, 3, ()))

    run = fed(DataLoader(Lottery(), 32))
    assert 50 < run.fact("data.conflicts") < run.fact("data.met_again") <= 128


def test_random_validation_content_is_told_apart_from_shuffled_validation():
    class Augmented(Dataset):
        def __len__(self) -> int:
            return 112

        def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
            return X[400 + i] + 0.1 * torch.randn(8), Y[400 + i]

    assert fed(loader(), DataLoader(Augmented(), 32)).fact("data.val_random") is True
    assert fed(loader(), DataLoader(Augmented(), 112)).fact("data.val_random") is True
    assert fed(loader(), loader(X[400:], Y[400:])).fact("data.val_random") is False
    assert fed(loader(), loader(X[400:], Y[400:], shuffle=True)).fact("data.val_random") is False


def test_the_same_batch_again_and_again_is_seen():
    def loop() -> None:
        model, data = net(), loader()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(8):
            x, y = next(iter(data))
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    run = watched(loop, Data())
    assert run["batch/repeat"].values.tolist()[-6:] == [1.0] * 6
    assert run.fact("data.fetched") == {"batches": 8, "iterators": 8}


def test_a_batch_the_script_holds_on_to_repeats_without_being_fetched():
    def loop() -> None:
        x, y = next(iter(loader()))
        fit(net(), lambda out, _: F.cross_entropy(out, y), x, y, steps=6, batch=32)

    run = watched(loop, Data())
    assert run["batch/repeat"].values[-4:].tolist() == [1.0] * 4
    assert run.fact("data.fetched")["batches"] == 1


def test_ordinary_batches_do_not_repeat():
    run = fed(loader(shuffle=True))
    assert not run["batch/repeat"].values.any()
    assert len(set(run["batch/fingerprint"].values)) == 48


class Rated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(150, 4), nn.Embedding(100, 4)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        return (self.user(user) * self.item(item)).sum(1)


@pytest.mark.parametrize("anew", [False, True])
def test_batches_of_ids_alone_are_told_apart(anew: bool):
    """Users, items and ratings: nothing but ids is fed, and only an iterator made anew at every step repeats itself."""
    draw = torch.Generator().manual_seed(0)
    rows = TensorDataset(*(torch.randint(0, n, (320,), generator=draw) for n in (150, 100)), torch.rand(320))

    def loop() -> None:
        model, data = Rated(), DataLoader(rows, 32)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        feed = iter(data)
        for _ in range(8):
            user, item, stars = next(iter(data)) if anew else next(feed)
            optimizer.zero_grad()
            F.mse_loss(model(user, item), stars).backward()
            optimizer.step()

    seen = watched(loop, Data())["batch/repeat"].values
    assert len(seen) >= 6 and (seen == float(anew)).all()


def test_a_batch_without_inputs_has_no_fingerprint():
    parts = batches.parted(list(batches.fields({"labels": torch.ones(4).long()})))
    assert parts is not None and batches.fingerprint(parts) is None


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(128):
            yield X[i], Y[i]


@pytest.mark.filterwarnings("ignore")
def test_workers_that_all_read_the_same_stream_are_seen():
    run = fed(DataLoader(Stream(), 16, num_workers=2), epochs=1)
    assert run.fact("data.worker_duplicates") >= 64


@pytest.mark.filterwarnings("ignore")
def test_two_workers_over_one_data_set_do_not_repeat_each_other():
    assert "data.worker_duplicates" not in fed(loader(num_workers=2, shuffle=True), epochs=1).facts


class Jitter(Dataset):
    """Augments with a generator of its own, which every epoch's workers copy anew."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return X[i] + torch.tensor(self.rng.normal(size=8), dtype=torch.float32), Y[i]


@pytest.mark.filterwarnings("ignore")
def test_augmentation_that_repeats_in_every_epoch_is_seen():
    run = fed(DataLoader(Jitter(), 16, num_workers=1), epochs=2)
    assert run.fact("data.aug_repeats") == {"repeats": 64, "checked": 64}


def test_augmentation_in_the_main_process_does_not_repeat():
    assert fed(DataLoader(Jitter(), 16), epochs=2).fact("data.aug_repeats")["repeats"] == 0


def test_a_data_set_without_randomness_is_not_asked_for_it():
    assert "data.aug_repeats" not in fed(loader(), epochs=2).facts


# -- numbers


def test_statistics_equal_a_slow_twin():
    x = X * 3 + 7
    run = fed(loader(x, Y), epochs=1)
    stats = run.fact("data.input_stats")
    assert stats["mean"] == pytest.approx(float(x.mean()), rel=1e-4)
    assert stats["std"] == pytest.approx(float(x.std(correction=0)), rel=1e-4)
    assert (stats["min"], stats["max"], stats["n"]) == (pytest.approx(float(x.min())), pytest.approx(float(x.max())), 512)
    channels = run.fact("data.channel_stats")
    assert channels["mean"] == pytest.approx(x.mean(0).tolist(), rel=1e-4)
    assert channels["std"] == pytest.approx(x.std(0, correction=0).tolist(), rel=1e-4)


def test_images_have_channels_whichever_way_they_are_stored():
    assert batches.channel_axis(torch.zeros(2, 3, 8, 8)) == 1
    assert batches.channel_axis(torch.zeros(2, 8, 8, 3)) == 3
    assert batches.channel_axis(torch.zeros(2, 5)) == 1
    assert batches.channel_axis(torch.zeros(2)) is None


def test_raw_pixels_are_whole_numbers():
    images = torch.randint(0, 256, (64, 3, 4, 4)).float()
    run = fed(loader(images, torch.randint(0, 3, (64,))), epochs=1, model=net(48))
    assert run["batch/input_integral"].values.all()
    assert not fed(loader(), epochs=1)["batch/input_integral"].values.any()


def test_values_that_are_not_finite_are_counted_and_listed():
    x = X.clone()
    x[40, 2] = float("nan")
    x[41, 3] = float("inf")
    run = fed(loader(x, Y), epochs=1)
    assert run["batch/input_nonfinite"].values.tolist()[:3] == [0.0, 2.0, 0.0]
    told = {"step": 1, "field": "input", "kind": "nonfinite", "samples": [8, 9], "indexes": [40, 41]}
    assert run.fact("data.bad_samples")[0] == told


def test_a_target_that_is_not_finite_counts_as_well():
    y = torch.randn(512, 1)
    y[3] = float("nan")

    def loop() -> None:
        model = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        for a, b in DataLoader(TensorDataset(X, y), 64):
            optimizer.zero_grad()
            F.mse_loss(model(a), b).backward()
            optimizer.step()

    run = watched(loop, Data())
    assert run.fact("data.bad_samples")[0]["field"] == "target"


def test_extremes_are_judged_against_the_first_two_thousand():
    x = torch.randn(2560, 8, generator=torch.Generator().manual_seed(0))
    x[2400, 1] = 1e4
    run = fed(loader(x, torch.zeros(2560, dtype=torch.long), size=64), epochs=1)
    assert run["batch/input_extreme"].values.sum() == 1
    assert run.fact("data.bad_samples")[-1]["kind"] == "extreme"


def test_a_faint_pixel_is_measured_by_the_scale_of_its_image():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2560, 1, 2, 4, generator=draw)
    x[:, 0, 0, 0] *= 1e-3  # a corner that is nearly always dark
    x[::40, 0, 0, 0] = 1.0
    x[2400, 0, 1, 1] = 1e4
    run = fed(loader(x, torch.zeros(2560, dtype=torch.long), size=64), epochs=1)
    assert run["batch/input_extreme"].values.sum() == 1


def test_sparse_features_have_no_extremes():
    x = (torch.rand(2560, 8, generator=torch.Generator().manual_seed(0)) > 0.98).float() * 1000
    run = fed(loader(x, torch.zeros(2560, dtype=torch.long), size=64), epochs=1)
    assert not run["batch/input_extreme"].values.any()


# -- what a feature gives away


def test_a_feature_that_is_the_label_stands_out():
    y = torch.randint(0, 2, (512,))
    x = X.clone()
    x[:, 5] = y + 0.01 * torch.randn(512)
    scores = fed(loader(x, y, shuffle=True), epochs=1).fact("data.feature_auc")
    assert scores["5"] > 0.99
    assert max(v for k, v in scores.items() if k != "5") < 0.7


def test_several_classes_and_numbers_have_their_own_scores():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 600).astype(float)
    assert contents.gain(y + rng.normal(0, 0.01, 600), y) > 0.98
    assert contents.gain(rng.normal(size=600), y) < 0.1
    z = rng.normal(size=600)
    assert contents.r2(np.exp(z), z) == pytest.approx(1.0)
    assert contents.r2(rng.normal(size=600), z) < 0.05


def test_labels_that_belong_to_the_inputs_are_told_from_shuffled_ones():
    true = fed(loader(shuffle=True), epochs=1).fact("data.label_probe")
    assert true["score"] > true["null_mean"] + 5 * true["null_sd"]
    mixed = fed(loader(X, Y[torch.randperm(512)], shuffle=True), epochs=1).fact("data.label_probe")
    assert mixed["score"] < mixed["null_mean"] + 4 * mixed["null_sd"]


@pytest.mark.parametrize(("kind", "low", "high"), [("random", 0.5, 1.5), ("sorted", 5, 1e9), ("stratified", 0, 0.2)])
def test_dispersion_is_one_for_random_batches(kind, low, high):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 3200)
    if kind == "sorted":
        labels = np.sort(labels)
    if kind == "stratified":
        labels = np.tile(np.arange(4), 800)
    found = contents.dispersion([Counter(part.tolist()) for part in labels.reshape(100, 32)])
    assert found is not None
    assert low <= found[0] <= high


# -- without a loader


def test_slices_of_a_tensor_are_a_feed_too():
    run = watched(lambda: fit(net(), lambda o, y: F.cross_entropy(o, y), X, Y, steps=40, batch=32), Data())
    assert run.fact("data.brought_by") == "loss call"
    assert run.fact("data.steps_per_epoch") == 16
    assert run.fact("data.order_repeats") is True
    assert run.fact("data.class_counts").keys() == {"0", "1", "2"}
    assert run.fact("data.conflicts") == 0


def test_samples_drawn_at_random_have_no_epoch():
    def loop() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(40):
            at = torch.randint(0, 512, (32,))
            optimizer.zero_grad()
            F.cross_entropy(model(X[at]), Y[at]).backward()
            optimizer.step()

    run = watched(loop, Data())
    assert "data.steps_per_epoch" not in run.facts
    assert "data.duplicate_share" not in run.facts
    assert run.fact("data.conflicts") == 0


def test_scoring_the_training_tensor_beside_the_validation_tensor_is_no_overlap():
    def loop(*parts: slice) -> Any:
        def inner() -> None:
            model = net()
            for _ in range(3):
                fit(model, lambda o, y: F.cross_entropy(o, y), X[:400], Y[:400], steps=25, batch=16)
                with torch.no_grad():
                    for part in parts:
                        F.cross_entropy(model(X[part]), Y[part])

        return inner

    clean = watched(loop(slice(0, 400), slice(400, 512)), Data())
    assert (clean.fact("data.shared"), clean.fact("data.seen")["val"]) == (0, 112)
    leak = watched(loop(slice(380, 512)), Data())
    assert leak.fact("data.shared") == 20


def test_one_full_batch_is_one_step_an_epoch():
    run = watched(lambda: fit(net(), lambda o, y: F.cross_entropy(o, y), X, Y, steps=6, batch=512), Data())
    assert run.fact("data.steps_per_epoch") == 1


# -- batches of every shape


@pytest.mark.parametrize(
    ("batch", "inputs", "target"),
    [
        ((X[:4], Y[:4]), 1, True),
        ({"x": X[:4], "y": Y[:4]}, 1, True),
        ({"input_ids": TEXT, "attention_mask": TEXT, "labels": TEXT}, 2, True)
        if (TEXT := torch.ones(4, 6).long()) is not None
        else (),
        ([{"image": X[:4]}, Y[:4]], 1, True),
        (X[:4], 1, False),
        ((X[:4], X[:4], Y[:4]), 2, True),
        ((X[:4], torch.tensor([1, 2, 3, 4]), Y[:4]), 1, True),
        (np.ones((4, 3), np.float32), 1, False),
    ],
)
def test_inputs_and_target_are_told_apart(batch, inputs, target):
    parts = batches.parted(list(batches.fields(batch)))
    assert parts is not None
    assert (len(parts.inputs), parts.target is not None, parts.samples) == (inputs, target, 4)


def test_the_place_of_the_target_is_learned_from_the_loss():
    """(input, label, index): the last part is not what the loss is asked for."""
    data = TensorDataset(X, Y, torch.arange(512))
    run = fed(DataLoader(data, 32, shuffle=True), batches=lambda b: b[:2], epochs=2)
    assert run.fact("data.class_counts").keys() >= {"0", "1", "2"}
    assert run["batch/label_max"].last == 2.0


def test_hashes_see_every_byte_of_small_samples_and_none_of_their_place():
    x = torch.randn(6, 3, 5)
    a = batches.sample_hashes((x,))
    b = batches.sample_hashes((x.flip(0),))
    assert a is not None and b is not None
    assert a[::-1].tolist() == b.tolist()
    x[2, 1, 4] = 0
    c = batches.sample_hashes((x,))
    assert c is not None
    assert (a != c).tolist() == [False, False, True, False, False, False]


def test_hashes_on_a_device_tell_the_same_samples_apart():
    x = torch.randn(200, 40)
    one, two = batches.device_hashes(x), batches.device_hashes(x.flip(0))
    assert one is not None and two is not None
    assert torch.equal(one.flip(0), two)
    assert len(torch.unique(one)) == 200


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.bool])
def test_every_dtype_can_be_hashed(kind):
    x = torch.randn(4, 3).to(kind)
    assert batches.sample_hashes((x,)) is not None
    assert batches.device_hashes(x) is not None
    assert batches.fingerprint(batches.Batch((x,), None, None, 4, x)) is not None


def test_memory_of_a_feed_is_bounded(monkeypatch):
    monkeypatch.setattr("traindx.probes.read.data.feeds.MOST_HASHES", 100)
    feed = Feed()
    parts = batches.parted([batches.Field("0", X)])
    assert parts is not None
    for _ in range(10):
        feed.hash(parts)
    assert feed.store.size <= 100 + len(X)


def test_the_lean_path_looks_in_bursts_and_stays_right():
    run = fed(loader(shuffle=True), loader(X[:64], Y[:64]), epochs=8, budget=0.01)
    assert run.fact("data.steps_per_epoch") == 16
    assert run.fact("data.order_repeats") is False
    assert run.fact("data.shared") > 0


@pytest.mark.parametrize("loaded", [True, False])
def test_the_first_evaluation_is_described_whatever_the_budget_allows(loaded: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Plan, "full", lambda plan, step: step < 3)
    val = loader(100 * X[:96], Y[:96]) if loaded else [(100 * X[:96], Y[:96])]
    run = fed(loader() if loaded else list(zip(X.split(32), Y.split(32))), val, budget=0.01)
    assert run.fact("data.val_input_stats")["std"] > 50 * run.fact("data.input_stats")["std"]


def test_a_target_of_many_numbers_is_probed_by_a_sum_of_them():
    """A denoiser has noise to predict: whether that noise is the one in its input, the probe can tell."""

    def loop(shuffled: bool):
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(20):
            noise = torch.randn(32, 4)
            goal = noise[torch.randperm(32)] if shuffled else noise
            loss = F.mse_loss(model(noise + 0.1 * torch.randn(32, 4)), goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    for shuffled in (False, True):
        run = watched(lambda shuffled=shuffled: loop(shuffled), Data())
        probe = run.fact("data.label_probe")
        assert (probe["score"] > 0.5) is not shuffled
        assert not run.fact("data.feature_auc")


def test_evaluations_under_inference_mode_are_described_as_any_other():
    x = torch.cat([-torch.ones(300, 1), torch.randn(300, 5, generator=torch.Generator().manual_seed(2))], 1)
    y, model = (x[:, 1] > 0).long(), net(6)

    def loop() -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for i in range(12):
            at = torch.arange(16 * i, 16 * i + 16)
            optimizer.zero_grad()
            F.cross_entropy(model(x[at]), y[at]).backward()
            optimizer.step()
            if i % 4 == 3:
                model.eval()
                with torch.inference_mode():
                    F.cross_entropy(model(x[200:]), y[200:])
                model.train()

    run = watched(loop, Data())  # a probe that fails is an error of the test
    assert run.fact("data.val_channel_stats")["mean"][0] == pytest.approx(-1.0)
    assert run.fact("data.val_input_stats")["n"] == 300


@pytest.mark.parametrize("hashed", [1.0, 0.6])
def test_a_look_at_the_training_set_is_no_validation_however_much_of_it_was_hashed(hashed: float) -> None:
    from traindx.probes.read.data.contents import shared
    from traindx.probes.read.data.feeds import Feed

    rng = np.random.default_rng(0)
    samples = rng.integers(1, 2**60, 1500).astype(np.uint64)
    train, val = Feed(), Feed()
    train.store.add(samples[: int(1000 * hashed)], None, 1)
    val.store.add(samples[1000:], None, 1)
    assert shared(train, val) == (0, 500)
    val.store.add(rng.permutation(samples[:1000]), None, 1)
    assert shared(train, val) == (0, 500)
    overlapping = Feed()  # the first tenth of what is validated on was trained on, too
    overlapping.store.add(samples[900:1000], None, 1)
    overlapping.store.add(samples[1000:], None, 1)
    assert shared(train, overlapping)[1] == (500 if hashed == 1.0 else 600)


def test_a_part_of_the_training_set_that_is_scored_beside_a_validation_set_is_no_overlap() -> None:
    def scored(*parts: slice) -> Run:
        loaders = [loader(X[p], Y[p], size=56) for p in parts]

        def loop() -> None:
            model, train_loader = net(), loader(X[:400], Y[:400], size=16, shuffle=True)
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            for _ in range(3):
                for x, y in train_loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                with torch.no_grad():
                    for part in loaders:
                        for x, y in part:
                            F.cross_entropy(model(x), y)

        return watched(loop, Data())

    looked = scored(slice(0, 112), slice(400, 512))
    assert (looked.fact("data.shared"), looked.fact("data.shared_apart")) == (0, 112)
    alone = scored(slice(0, 112))
    assert alone.fact("data.shared") == 112
    partly = scored(slice(350, 462), slice(400, 512))  # half of it is new: a split that overlaps
    assert partly.fact("data.shared") == 50


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("squared", [False, True])
def test_the_target_of_a_difference_by_hand_is_seen(turned: bool, squared: bool) -> None:
    x = torch.randn(640, 6, generator=torch.Generator().manual_seed(4))
    y = x[:, 0] - 2 * x[:, 1]

    def loop() -> None:
        model = nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for i in range(20):
            at = slice(32 * i, 32 * i + 32)
            out = model(x[at])[:, 0]
            apart = y[at] - out if turned else out - y[at]
            loss = (apart**2).mean() if squared else apart.abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    run = watched(loop, Data())
    assert run.series("batch/label_max").values[0] == pytest.approx(float(y[:32].max()), rel=1e-4)
    assert run.fact("data.label_probe")["score"] > 0.9 and run.fact("data.label_probe")["kind"] == "regression"
    assert run.fact("loss.by_hand") == ("mse" if squared else None)


def test_a_difference_of_something_else_is_no_target() -> None:
    def loop() -> None:
        model = nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for i in range(20):
            loss = ((model(X[16 * i : 16 * i + 16, :6]).sigmoid() - 0.3) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    run = watched(loop, Data())
    assert not len(run.series("batch/label_max")) and run.fact("loss.by_hand") is None


def test_how_far_a_text_is_padded_does_not_change_its_hash() -> None:
    short, long = torch.tensor([[0, 5, 7, 0], [3, 4, 5, 6]]), torch.tensor([[5, 7, 0, 0, 0, 0], [3, 4, 5, 6, 0, 0]])
    assert (batches.sample_hashes((short,), 0) == batches.sample_hashes((long,), 0)).all()
    assert (batches.sample_hashes((short,)) != batches.sample_hashes((long,))).all()
    assert (batches.sample_hashes((short, (short > 0).long()), 0) == batches.sample_hashes((long, (long > 0).long()), 0)).all()
    empty = torch.zeros(2, 4).long()
    assert len(set(batches.sample_hashes((empty,), 0).tolist())) == 1


def test_texts_with_two_labels_conflict_and_contexts_with_two_next_words_do_not() -> None:
    rng = np.random.default_rng(0)
    ids = torch.tensor(rng.integers(1, 60, (200, 10)))
    twice, first = torch.cat([ids, ids]), torch.tensor(rng.integers(0, 3, 200))
    second = torch.where(torch.arange(200) < 50, (first + 1) % 3, first)

    class Bag(nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            self.embed, self.head = nn.EmbeddingBag(60, 8), nn.Linear(8, classes)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.embed(x))

    told = fed(loader(twice, torch.cat([first, second]), shuffle=True), model=Bag(3))
    assert told.fact("data.conflicts") == 50
    words = fed(loader(twice, torch.tensor(rng.integers(0, 60, 400)), shuffle=True), model=Bag(60))
    assert words.fact("data.conflicts") is None


def test_counts_of_words_tell_labels_that_belong_to_a_text() -> None:
    rng = np.random.default_rng(0)
    y = torch.tensor(rng.integers(0, 3, 600))
    ids = torch.tensor(rng.integers(1, 30, (600, 12))) + 30 * y[:, None] * torch.tensor(rng.random((600, 12)) < 0.5)
    model = nn.Sequential(nn.EmbeddingBag(100, 8), nn.Linear(8, 3))
    probe = fed(loader(ids, y, shuffle=True), model=model).fact("data.label_probe")
    assert probe["score"] - probe["null_mean"] > 10 * probe["null_sd"]
    probe = fed(loader(ids, y[torch.randperm(600)], shuffle=True), model=model).fact("data.label_probe")
    assert probe["score"] - probe["null_mean"] < 3 * probe["null_sd"]


def test_finely_measured_inputs_are_told_from_answers_of_a_few_kinds() -> None:
    rng = np.random.default_rng(0)

    def kept(x: np.ndarray) -> Feed:
        feed = Feed()
        feed.keep_rows(torch.tensor(x, dtype=torch.float32), torch.zeros(len(x)))
        return feed

    assert contents.continuous(kept(rng.normal(size=(400, 3)))) is True
    assert contents.continuous(kept(np.repeat(rng.normal(size=(100, 3)), 4, axis=0))) is True  # copies of fine inputs
    assert contents.continuous(kept(rng.integers(0, 256, (400, 64)) / 255)) is True  # pictures
    assert contents.continuous(kept((rng.integers(1, 6, (400, 4)) - 3) / 1.4)) is False  # a questionnaire
    assert contents.continuous(kept(np.eye(20)[rng.integers(0, 20, 400)])) is False
    assert contents.continuous(kept(rng.normal(size=(20, 3)))) is None
    assert contents.continuous(kept(np.repeat(rng.normal(size=(2, 3)), 50, axis=0))) is None  # two samples again and again


def test_one_input_in_place_of_many_is_counted_with_its_labels() -> None:
    blank = X.clone()
    blank[::5] = 0
    told = fed(loader(blank, Y, shuffle=True)).fact("data.commonest")
    assert told["labels"] == 3 and told["share"] == pytest.approx(0.2, abs=0.05)
    assert fed(loader(shuffle=True)).fact("data.commonest") is None
    assert fed(loader(X[:32], Y[:32], size=8), epochs=25).fact("data.commonest") is None  # every sample comes 25 times


def test_samples_are_kept_when_asked_without_a_loader_too(tmp_path: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with traindx.watch(model, optimizer, dir=tmp_path / "run", capture_batch=True):
        for _ in range(2):
            for i in range(20):
                optimizer.zero_grad()
                F.cross_entropy(model(X[16 * i : 16 * i + 16]), Y[16 * i : 16 * i + 16]).backward()
                optimizer.step()
            with torch.no_grad():
                F.cross_entropy(model(X[400:]), Y[400:])
    kept = read(tmp_path / "run").fact("data.samples")
    assert len(kept["train"]) == 3 and len(kept["val"]) == 1
    assert kept["val"][0]["targets"] == Y[400:408].tolist() and kept["train"][0]["targets"] == Y[:8].tolist()


class _Table(Dataset):
    def __init__(self) -> None:
        self.x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        self.x[41, 2] = torch.nan

    def __len__(self) -> int:
        return 60

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.x[i], int(i % 3)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("part", [False, True])
def test_a_bad_sample_is_named_by_its_index_in_the_data_set(workers: int, part: bool) -> None:
    rows: Any = _Table()
    given = torch.utils.data.Subset(rows, list(range(59, 19, -1))) if part else rows
    run = fed(DataLoader(given, 8, shuffle=True, num_workers=workers), model=net(4), epochs=2)
    bad = [row for row in run.fact("data.bad_samples") if row["kind"] == "nonfinite"]
    assert len(bad) == 2 and all(row["indexes"] == [41] for row in bad)


def test_an_epoch_that_is_left_early_does_not_shift_the_names() -> None:
    loader_ = DataLoader(_Table(), 8, shuffle=True, num_workers=1, persistent_workers=True)

    def loop() -> None:
        model = net(4)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(3):
            for i, (x, y) in enumerate(loader_):
                optimizer.zero_grad()
                F.cross_entropy(model(x.nan_to_num() if i < 2 else x), y).backward()
                optimizer.step()
                if i == 5:
                    break

    run = watched(loop, Data())
    assert all(row["indexes"] == [41] for row in run.fact("data.bad_samples", []) if row["kind"] == "nonfinite")


class _Shifted(Dataset):
    def __init__(self) -> None:
        self.x = np.random.default_rng(7).normal(size=(64, 8)).astype(np.float32)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        rng = np.random.default_rng(1234)
        return self.x[i] + rng.normal(size=8).astype(np.float32), i % 3


class _ByIndex(_Shifted):
    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        rng = np.random.default_rng(i)
        return self.x[i] + rng.normal(size=8).astype(np.float32), i % 3


class _Fresh(_Shifted):
    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        rng = np.random.default_rng()
        return self.x[i] + 2 * rng.normal(size=8).astype(np.float32), i % 3


@pytest.mark.parametrize(("kind", "seed"), [(_Shifted, 1234), (_ByIndex, None), (_Fresh, None)])
def test_a_constant_seed_for_every_sample_is_read_off_the_data_set(kind: type, seed: int | None) -> None:
    assert fed(DataLoader(torch.utils.data.Subset(kind(), range(48)), 8)).fact("data.fixed_seed") == seed


@pytest.mark.parametrize(("shuffle", "stride", "told"), [(False, 1, True), (False, 3, True), (True, 1, None)])
def test_windows_of_a_series_are_known_by_moving_on(shuffle: bool, stride: int, told: bool | None) -> None:
    windows = torch.randn(600, generator=torch.Generator().manual_seed(0)).unfold(0, 8, stride).contiguous()
    run = fed(loader(windows, torch.arange(len(windows)) % 3, size=16, shuffle=shuffle))
    assert run.fact("data.series") is told
    assert fed(loader(torch.ones(200, 8), Y[:200])).fact("data.series") is None


def test_another_data_set_that_is_trained_on_for_some_passes_has_joined():
    def loop(again):
        model = nn.Linear(6, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(0)
        x, y = torch.randn(3, 64, 6), torch.randint(0, 2, (64,))
        for part in (x[0], x[1], x[0] if again else x[2]):
            batches = DataLoader(TensorDataset(part.clone(), y), 16, shuffle=True)
            for _ in range(3):
                for a, b in batches:
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(model(a), b).backward()
                    optimizer.step()

    assert watched(lambda: loop(False), Data()).fact("data.joined_at") == [12, 24]
    assert watched(lambda: loop(True), Data()).fact("data.joined_at") == [12]


@pytest.mark.parametrize("scale", [1.0, 255.0, 0.01])
def test_inputs_are_described_as_the_model_gets_them(scale: float, tmp_path: Path) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    with traindx.watch(model, optimizer, dir=tmp_path / "run"):
        for x, y in loader():
            optimizer.zero_grad()
            F.cross_entropy(model(x * scale if scale != 1 else x), y).backward()
            optimizer.step()
    run = read(tmp_path / "run")
    brought, given = run.fact("data.input_stats"), run.fact("data.given_stats")
    assert given is None if scale == 1 else given["std"] == pytest.approx(brought["std"] * scale, rel=1e-3)


def test_what_a_second_model_gets_from_the_first_is_no_data(tmp_path: Path) -> None:
    body, head = nn.Linear(8, 8), nn.Linear(8, 3)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], 0.01)
    with traindx.watch(head, optimizer, dir=tmp_path / "run"):
        for x, y in loader():
            optimizer.zero_grad()
            F.cross_entropy(head(body(x) * float("nan")), y).backward()
            optimizer.step()
    bad = read(tmp_path / "run").series("batch/input_nonfinite")
    assert not (bad.values > 0).any()
