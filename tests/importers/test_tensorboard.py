"""Event files: values equal to TensorBoard's own, damage stepped over, everything else left alone."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.importers import writers as w

from traindx import importers
from traindx.errors import NothingReadable
from traindx.importers import events, tensorboard, tensors, tfrecord
from traindx.importers.source import Source
from traindx.importers.table import Options


def read(data: bytes, name: str = "events.out.tfevents.1.x") -> importers.Run:
    [log] = tensorboard.read(Source(name, data=data), Options())
    [run] = importers.runs_of(log)
    return run


def test_values_equal_those_of_tensorboards_own_reader(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tags = {f"t{i}/{'x' * (i % 5)}": [(s, float(rng.normal())) for s in range(-3 if i == 0 else 0, 700 + i)] for i in range(12)}
    tags["odd"] = [(0, float("nan")), (2**40, float("inf")), (2**40 + 1, -0.0)]
    path = tmp_path / "events.out.tfevents.1.x"
    path.write_bytes(w.event_bytes(tags))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        truth = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
        truth.Reload()
    [log] = tensorboard.read(Source.of(path), Options())
    assert set(log.tracks) == set(truth.Tags()["scalars"])
    for tag in log.tracks:
        points = truth.Scalars(tag)
        np.testing.assert_array_equal(log.tracks[tag].x, [p.step for p in points])
        np.testing.assert_array_equal(log.tracks[tag].values, [p.value for p in points])
        np.testing.assert_array_equal(log.tracks[tag].times, [p.wall_time for p in points])


def test_the_fast_way_and_the_slow_way_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    data = w.event_bytes()
    fast = read(data)
    monkeypatch.setattr(events, "LONGEST_FAST", 0)
    assert read(data).signals == fast.signals


def test_what_tensorboards_own_writer_writes_is_read(tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))

    def add(step: int, **value: object) -> None:
        writer.add_event(Event(wall_time=1.7e9 + step, step=step, summary=Summary(value=[Summary.Value(**value)])))

    for i in range(40):
        add(i, tag="Loss/Train", simple_value=1.0 / (i + 1))
        if i % 10 == 9:
            add(i, tag="Loss/Validation", simple_value=2.0 / (i + 1))
    meta = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    text = b'{"optim": "adamw_torch", "max_steps": 100, "num_labels": 4}'
    add(0, tag="args/text_summary", metadata=meta, tensor=TensorProto(dtype=7, string_val=[text]))
    add(3, tag="fc.weight", histo=HistogramProto(min=-1, max=1, num=100, sum=5.0, sum_squares=34.0))
    add(1, tag="picture", image=Summary.Image(height=4, width=4, colorspace=3, encoded_image_string=b"png"))
    writer.close()
    [run] = importers.read(tmp_path)
    assert len(run["loss/train"]) == 40 and run["loss/val"].steps.tolist() == [9, 19, 29, 39]
    assert run.fact("optimizer.name") == "AdamW" and run.fact("budget.planned_steps") == 100
    assert run.fact("loss.kind") == "ce" and run.fact("loss.classes") == 4
    assert run["weight_norm/param"].names == ("fc.weight",)
    assert run["weight_norm/param"].values[0, 0] == pytest.approx(34.0**0.5)
    assert run["weight_mean/param"].values[0, 0] == pytest.approx(0.05)


@pytest.mark.parametrize("cut", [0, 1, 7, 11, 12, 20, 50, 51, 52, 60, 400, 5000])
def test_a_cut_file_gives_what_stands_before_the_cut(cut: int) -> None:
    whole = w.event_bytes()
    try:
        run = read(whole[: max(0, len(whole) - cut)])
    except NothingReadable:
        pytest.fail("everything was thrown away")
    assert len(run["loss/train"]) >= 300 - cut // 40 - 1
    np.testing.assert_array_equal(run["loss/train"].values, np.float32(w.TRAIN)[: len(run["loss/train"])])
    assert (cut == 0) == (not any("skipped" in n for n in run.notes)) or cut in (50, 51, 400)


def test_a_cut_at_every_byte_of_a_small_file_never_breaks() -> None:
    whole = w.event_bytes({"loss": [(0, 1.0), (1, 2.0), (300, 3.0)]})
    seen = set()
    for cut in range(len(whole) + 1):
        try:
            seen.add(len(read(whole[:cut])["loss/train"]))
        except NothingReadable:
            seen.add(0)
    assert seen == {0, 1, 2, 3}


def test_every_flipped_byte_costs_at_most_one_record_and_gives_no_wrong_number() -> None:
    points = [(i, float(np.float32(1.5 + i))) for i in range(6)]
    whole = bytearray(w.event_bytes({"loss": points}))
    truth = dict(points)
    for at in range(len(whole)):
        damaged = bytes(whole[:at]) + bytes([whole[at] ^ 0x55]) + bytes(whole[at + 1 :])
        run = read(damaged)
        got = dict(zip(run["loss/train"].steps.tolist(), run["loss/train"].values.tolist()))
        assert got.items() <= truth.items(), f"byte {at} made a wrong number"
        assert len(got) >= 5 and (len(got) == 6 or any("skipped" in n for n in run.notes)), f"byte {at} cost {6 - len(got)}"


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 4 << 30, 10_000])
def test_a_length_beyond_the_file_allocates_nothing(length: int) -> None:
    head = struct.pack("<Q", length)
    good = w.event_bytes({"loss": [(i, 1.0 + i) for i in range(5)]})
    run = read(good + head + w.masked(head) + b"rest")
    assert len(run["loss/train"]) == 5


def test_after_damage_the_reader_finds_the_next_record() -> None:
    good = w.event_bytes({"loss": [(i, 1.0 + i) for i in range(50)]})
    more = w.event_bytes({"loss": [(i, 1.0 + i) for i in range(50, 100)]})
    run = read(good + b"\x00" * 1000 + b"garbage" * 31 + more)
    assert run["loss/train"].steps.tolist() == list(range(100))
    assert any("damaged" in n and "skipped" in n for n in run.notes)


def test_tensors_of_every_kind_give_their_number() -> None:
    kinds = {
        "float": w.tensor(1, struct.pack("<f", 1.5)),
        "floats": w.tensor(1, struct.pack("<f", 1.5), field=5),
        "double": w.tensor(2, struct.pack("<d", 1.5)),
        "half": w.tensor(19, np.float16(1.5).tobytes()),
        "bf16": w.tensor(14, struct.pack("<f", 1.5)[2:]),
        "int": w.tensor(9, struct.pack("<q", 7)),
        "one": w.tensor(1, struct.pack("<f", 1.5), (1,)),
    }
    data = b"".join(w.framed(w.event(s, w.tensor_value(k, body))) for k, body in kinds.items() for s in range(3))
    [log] = tensorboard.read(Source("x.tfevents", data=data), Options())
    assert {k: t.values[0] for k, t in log.tracks.items()} == {k: 7.0 if k == "int" else 1.5 for k in kinds}


@pytest.mark.parametrize(
    "body",
    [
        w.tensor(1, b"abc"),
        w.tensor(1, struct.pack("<f", 1.0), (10**9,)),
        w.tensor(1, struct.pack("<f", 1.0), (2**40, 2**40)),
        w.tensor(77, b"\x00" * 8),
        w.tensor(7, b"<script>alert(1)</script>", field=8),
        w.tensor(1, struct.pack("<ff", 1.0, 2.0), (2,)),
    ],
    ids=["cut", "too-few", "overflow", "unknown-type", "text", "several"],
)
def test_tensors_that_are_no_number_are_counted_not_read(body: bytes) -> None:
    data = w.event_bytes({"loss": [(i, 1.0) for i in range(3)]}) + w.framed(w.event(3, w.tensor_value("odd", body)))
    run = read(data)
    assert list(run.fact("columns")) == ["loss"]


def test_nesting_and_nonsense_inside_an_event_cost_that_event() -> None:
    deep = b""
    for _ in range(10_000):
        deep = w.sized(1, deep)
    bad = [w.framed(b"\x2a" + w.varint(10**6)), w.framed(w.event(1, deep)), w.framed(b"\x0b\x0b\x0b"), w.framed(b"\xff" * 30)]
    run = read(w.event_bytes({"loss": [(i, 1.0) for i in range(3)]}) + b"".join(bad))
    assert len(run["loss/train"]) == 3
    assert any("could not be understood were skipped" in n for n in run.notes)


def test_tags_that_only_differ_in_unprintable_characters_are_both_kept() -> None:
    [log] = tensorboard.read(Source("x", data=w.event_bytes({"loss": [(0, 1.0)], "lo\x07ss": [(0, 2.0)]})), Options())
    assert sorted(log.tracks) == ["loss", "loss_2"]


def test_many_tags_stay_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_COLUMNS", 500)
    run = read(w.event_bytes({f"tag{i}": [(0, float(i))] for i in range(2000)}))
    assert any("beyond the limits were skipped" in n for n in run.notes)


def test_a_restart_in_the_same_folder_is_another_run(tmp_path: Path) -> None:
    first = w.event_bytes({"loss": [(i, 1.0) for i in range(50)]})
    (tmp_path / "events.out.tfevents.1700000000.a").write_bytes(first)
    (tmp_path / "events.out.tfevents.1700009999.a").write_bytes(w.event_bytes({"loss": [(i, 2.0) for i in range(60)]}))
    runs = importers.read(tmp_path)
    assert [len(r["loss/train"]) for r in runs] == [50, 60]


def test_a_resume_in_a_second_file_is_one_run_with_a_seam(tmp_path: Path) -> None:
    for stamp, lo, hi, value in ((1700000000, 0, 100, 1.0), (1700009999, 60, 160, 2.0)):
        (tmp_path / f"events.out.tfevents.{stamp}.a").write_bytes(w.event_bytes({"loss": [(i, value) for i in range(lo, hi)]}))
    [run] = importers.read(tmp_path)
    assert run["loss/train"].steps.tolist() == list(range(160))
    assert run["loss/train"].values[59] == 1.0 and run["loss/train"].values[60] == 2.0
    [seam] = run.events_of("resume")
    assert seam.step == 60 and seam.data == {"previous_last_step": 99, "steps_repeated": 40}


def test_empty_shells_are_passed_over_in_silence(tmp_path: Path) -> None:
    shell = w.framed(b"\x09" + struct.pack("<d", 1.7e9) + w.sized(3, b"brain.Event:2"))
    for i in range(20):
        (tmp_path / f"events.out.tfevents.17000000{i:02d}.a").write_bytes(shell)
    (tmp_path / "events.out.tfevents.1700000050.a").write_bytes(w.event_bytes({"loss": [(i, 1.0) for i in range(9)]}))
    [run] = importers.read(tmp_path)
    assert len(run["loss/train"]) == 9 and not run.notes


def test_add_scalars_folders_are_joined_by_their_split(tmp_path: Path) -> None:
    for split, n in (("train", 40), ("val", 4)):
        (tmp_path / f"Loss_{split}").mkdir()
        points = {"Loss": [(i * (40 // n), 1.0 / (i + 1)) for i in range(n)]}
        (tmp_path / f"Loss_{split}" / "events.out.tfevents.1.a").write_bytes(w.event_bytes(points))
    [run] = importers.read(tmp_path)
    assert len(run["loss/train"]) == 40 and len(run["loss/val"]) == 4


def test_numbered_yolo_folders_are_not_splits_of_one_run(tmp_path: Path) -> None:
    for name in ("train2", "train10"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.out.tfevents.1.a").write_bytes(w.event_bytes({"loss": [(i, 1.0) for i in range(9)]}))
    assert [Path(r.source).name for r in importers.read(tmp_path)] == ["train2", "train10"]


def test_closing_numbers_of_add_hparams_are_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.a").write_bytes(w.event_bytes({"loss": [(i, 1.0) for i in range(9)]}))
    (tmp_path / "1700000000.5").mkdir()
    (tmp_path / "1700000000.5" / "events.out.tfevents.2.a").write_bytes(w.event_bytes({"hparam/acc": [(0, 0.5)]}))
    assert len(importers.read(tmp_path)) == 1


def test_validation_that_counts_epochs_is_placed_among_the_steps() -> None:
    points = {"train_loss": [(i, 1.0) for i in range(1000)], "val_loss": [(e, 2.0) for e in range(10)]}
    head = b""
    for tag, entries in points.items():
        for step, value in entries:
            wall = step if tag == "train_loss" else (step + 1) * 100 - 0.5
            data = b"\x09" + struct.pack("<d", 1e9 + wall) + b"\x10" + w.varint(step) + w.sized(5, w.scalar(tag, value))
            head += w.framed(data)
    run = read(head)
    assert run["loss/val"].steps.tolist() == [99 + 100 * e for e in range(10)]
    assert any("clock" in n for n in run.notes)


def test_megatrons_copies_of_a_curve_are_ignored() -> None:
    points = [(i, 3.0) for i in range(30)]
    run = read(
        w.event_bytes(
            {"lm-loss-training/lm loss": points, "lm-loss-training/lm loss vs samples": [(8 * i, 3.0) for i, _ in points]}
        )
    )
    assert run["loss/train"].steps[-1] == 29 and not run.matching("metric/*")


def test_a_record_longer_than_the_limit_is_stepped_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfrecord, "CHUNK", 4096)
    monkeypatch.setattr(tfrecord, "MOST_RECORD", 2048)
    big = w.framed(w.event(1, w.sized(1, w.sized(1, b"graph") + w.sized(4, b"\x00" * 50_000))))
    points = [(i, 1.0 + i) for i in range(200)]
    run = read(w.event_bytes({"loss": points[:100]}) + big + w.event_bytes({"loss": points[100:]}))
    assert run["loss/train"].steps.tolist() == list(range(200))


def test_hash_collisions_would_not_mix_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ones:
        def integers(self, lo: int, hi: int, size: int, dtype: object) -> np.ndarray:
            return np.zeros(size, np.uint64)

    monkeypatch.setattr(events.np.random, "default_rng", lambda seed: Ones())
    run = read(w.event_bytes({"ab": [(i, 1.0) for i in range(20)], "ba": [(i, 2.0) for i in range(20)]}))
    assert run["metric/other/ab"].values.tolist() == [1.0] * 20 and run["metric/other/ba"].values.tolist() == [2.0] * 20


def test_layouts_of_anything_but_one_scalar_are_refused() -> None:
    two = w.scalar("a", 1.0) + w.scalar("b", 2.0)
    assert tensors.layout_of(w.event(5, two)) is None
    assert tensors.layout_of(b"") is None and tensors.layout_of(b"\x09") is None
    found = tensors.layout_of(w.event(300, w.scalar("loss", 1.0)))
    assert found is not None and found.tag == b"loss" and found.step_size == 2
