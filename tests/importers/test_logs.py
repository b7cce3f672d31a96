"""Real logs: the committed part always, the whole shared corpus where it stands beside the project."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from traindx import importers
from traindx.diagnosis import diagnose
from traindx.errors import NothingReadable, TraindxError
from traindx.finding import Severity, Status
from traindx.run import Run

HERE = Path(__file__).parents[1] / "data" / "logs"
SHARED = Path(__file__).parents[3] / "shared" / "logs"
ROOT = SHARED if (SHARED / "INDEX.jsonl").is_file() else HERE


def index(root: Path) -> dict[str, dict[str, object]]:
    labels = {r["id"]: r for r in map(json.loads, (root / "LABELS.jsonl").read_text().splitlines())}
    return {r["id"]: {**r, **labels[r["id"]]} for r in map(json.loads, (root / "INDEX.jsonl").read_text().splitlines())}


COMMITTED, ALL = index(HERE), index(ROOT)


def read(root: Path, entry: dict[str, object]) -> list[Run]:
    try:
        return importers.read(root / str(entry["file"]))
    except NothingReadable:
        assert "too-short-to-say" in entry["labels"], entry  # type: ignore[operator]
        return []


@pytest.mark.parametrize("name", list(ALL))
def test_every_log_is_read_with_its_points(name: str) -> None:
    entry = ALL[name]
    runs = read(ROOT, entry)
    points = sum(len(r.series("loss/train")) for r in runs)
    assert points >= 0.4 * int(str(entry["points"])) or entry["format"] in ("wandb_binary", "lightning_csv") or points >= 500, (
        points,
        entry,
    )
    for run in runs:
        assert run.fact("columns") or run.signals
        for signal in run.signals.values():
            assert (signal.steps[1:] >= signal.steps[:-1]).all()


@pytest.mark.parametrize("name", list(COMMITTED))
def test_no_rule_breaks_on_a_committed_log(name: str) -> None:
    for run in read(HERE, COMMITTED[name]):
        broken = [o for o in diagnose(run).outcomes if o.status is Status.BROKEN]
        assert not broken, broken[0].reason


@pytest.mark.parametrize(
    "name", [n for n, e in COMMITTED.items() if not e["ambiguous"] and set(e["labels"]) & {"healthy", "too-short-to-say"}]
)  # type: ignore[call-overload]
def test_healthy_and_short_logs_raise_no_alarm(name: str) -> None:
    for run in read(HERE, COMMITTED[name]):
        loud = [f for f in diagnose(run).findings if f.severity >= Severity.WARNING]
        assert not loud, loud


@pytest.mark.parametrize(("csv", "events"), [("YO03", "TB25")])
def test_twins_in_two_formats_have_the_same_curves(csv: str, events: str) -> None:
    [a], [b] = read(HERE, COMMITTED[csv]), read(HERE, COMMITTED[events])
    for signal in ("loss/train", "loss/val", "metric/val/mAP50(B)"):
        assert a[signal].steps.tolist() == b[signal].steps.tolist()
        assert a[signal].values == pytest.approx(b[signal].values, rel=1e-5, nan_ok=True)


QUIRKS = {
    "TS22": lambda r: len(r["loss/val"]) == 11 and "accuracy/val" in r,
    "TS15": lambda r: (
        "metric/val/wer" in r and r.fact("metrics.direction")["metric/val/wer"] == "down" and len(r["loss/train"]) == 60
    ),
    "TB30": lambda r: r.events_of("nonfinite")[0].data["count"] == 10 and "accuracy/val" in r,
    "PL15": lambda r: "loss/train" not in r and len(r["loss/val"]) == 2,
    "YO03": lambda r: r["lr"].values[0] < 0.01 and set(r["loss/terms"].names) == {"box", "cls", "dfl"},
    "OT06": lambda r: len(r["loss/train"]) == 201 and r["loss/train"].values[0] == 4.2653,
    "OT10": lambda r: len(r["loss/train"]) == 11,
    "OT17": lambda r: r["loss/train"].steps[0] == 1000 and len(r["loss/val"]) == 6,
    "OT42": lambda r: r.fact("step_unit") == "epoch" and len(set(r["accuracy/val"].values)) == 1,
    "OT55": lambda r: any("only the last values" in n for n in r.notes),
    "OT01": lambda r: r["loss/train"].steps[-1] == 5000 and len(r["loss/train"]) == 501 and len(r["loss/val"]) == 21,
}


@pytest.mark.parametrize("name", list(QUIRKS))
def test_quirks_of_real_files(name: str) -> None:
    [run] = read(HERE, COMMITTED[name])
    assert QUIRKS[name](run), (run, run.notes)


def test_a_whole_folder_of_logs_is_read_run_by_run() -> None:
    runs = importers.read(HERE)
    assert len(runs) >= 30 and len({r.source for r in runs}) == len(runs)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ALL))
def test_two_hundred_cuts_of_every_log(name: str, tmp_path: Path) -> None:
    source = ROOT / str(ALL[name]["file"])
    data = source.read_bytes()
    rng = random.Random(name)
    target = tmp_path / source.name
    for _ in range(200):
        target.write_bytes(data[: rng.randrange(len(data))])
        try:
            importers.read(target)
        except TraindxError:
            continue


def test_a_curve_may_be_values_by_step(tmp_path: Path) -> None:
    """As pandas' `to_json` writes a history, and as scripts keep what they evaluate now and then."""
    val = {str(i): 1.0 / (i + 1) for i in range(10, 200, 10)}
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"train_loss": {str(i): 1.0 / (i + 1) for i in range(200)}, "val_loss": val, "lr": 0.1}))
    [run] = importers.read(path)
    assert list(run.series("loss/val").steps) == list(range(10, 200, 10)) and len(run.series("loss/train")) == 200
    [run] = importers.read({"loss/train": [1.0] * 40, "loss/val": {10: 1.0, 20: 2.0}})
    assert list(run.series("loss/val").steps) == [10, 20]
    # names, not steps: a table of classes is no curve
    [run] = importers.read({"loss/train": [1.0] * 40, "val/accuracy": {"cat": 0.5, "dog": 0.25}})
    assert set(run.signals) == {"loss/train"}
