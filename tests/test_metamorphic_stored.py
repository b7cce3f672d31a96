"""Metamorphic relations on recorded runs of the clinic, judged by every rule (reliability part 4.5): MR-15 and MR-20 to MR-28.

What changes nothing in a run must change nothing in its diagnosis. `test_metamorphic.py` has the relations of made-up curves,
`test_metamorphic_trained.py` those that need another training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from clinic import store
from clinic.case import written
from tests.importers import writers

from traindx import importers
from traindx.diagnosis import diagnose, examine
from traindx.finding import Severity, Status
from traindx.importers import aliases
from traindx.record import Writer, read
from traindx.record.ranks import merge_ranks
from traindx.report import thinning
from traindx.report.json import report
from traindx.run import Run, Series

CASES = {c.name: c for c in written()}
SICK = ("zero_grad_missing_mlp", "adam_lr_half", "overfit_small_sample", "shuffled_apart", "log_of_zero_by_hand")
HEALTHY = ("warm_restarts", "batch_of_four", "heavy_dropout")
each = pytest.mark.parametrize("name", [*SICK, *HEALTHY])
COMMON = ("loss/train", "loss/val", "lr", "grad_norm")


@cache
def stored(name: str) -> Run:
    return store.load(store.RUNS / f"{name}.npz")


@cache
def known(name: str) -> dict[str, Severity]:
    """The alarms of a stored run as it is."""
    return alarms(stored(name))


def alarms(run: Run) -> dict[str, Severity]:
    """The worst severity of every rule that says more than a remark."""
    out: dict[str, Severity] = {}
    for outcome in examine(run):
        assert outcome.status is not Status.BROKEN, (outcome.code, outcome.reason)
        worst = max((f.severity for f in outcome.findings), default=Severity.INFO)
        if worst > Severity.INFO:
            out[outcome.code] = worst
    return out


def common(run: Run) -> Run:
    """What a log of the run would hold: the curves alone."""
    return Run({k: run.series(k) for k in COMMON if len(run.series(k))}, {"step_unit": "step"})


# -- MR-15: eight ranks instead of one, the same batches in all


def on_ranks(run: Run, world: int) -> Run:
    """The record of a run whose batch is spread over `world` ranks: each sees a part of the loss, all have the same weights."""
    rng = np.random.default_rng(0)
    loss = run.series("loss/train")
    spread = (
        np.sqrt(np.maximum(run.series("loss/sample_var").at(loss.steps), 0)) / 8
    )  # a part of the batch strays more than the whole
    parts = np.nan_to_num(spread)[:, None] * rng.normal(size=(len(loss), world))
    parts -= parts.mean(axis=1, keepdims=True)  # … and their mean is the loss of the whole batch
    if np.min(loss.values) > 0:  # what is never negative is so on no rank
        parts *= np.minimum(1.0, 0.9 * loss.values / np.maximum(-parts.min(axis=1), 1e-12))[:, None]
    mark = Series(loss.steps, 1000.0 + np.arange(len(loss)))
    seen = run.series("batch/fingerprint")
    ranks = {}
    for r in range(world):
        own = {"loss/train": Series(loss.steps, loss.values + parts[:, r]), "rank/fingerprint": mark}
        if len(seen):
            own["batch/fingerprint"] = Series(seen.steps, seen.values + 1e6 * (r + 1))  # other samples on every rank
        ranks[r] = run.with_(own, facts={"world_size": world, "rank": r, "distributed": "ddp"})
    return merge_ranks(ranks)


@each
def test_the_number_of_ranks_changes_no_diagnosis(name: str) -> None:
    merged = on_ranks(stored(name), 8)
    assert "rank/loss" in merged and len(merged["rank/loss"].names) == 8
    assert alarms(merged) == known(name)


# -- MR-20: runs that lie side by side


def test_two_runs_in_a_folder_are_judged_as_if_alone(tmp_path: Path) -> None:
    for name in ("overfit_small_sample", "batch_of_four"):
        as_csv(common(stored(name)), tmp_path / f"{name}.csv")
    together = {Path(r.source).stem: r for r in importers.read(tmp_path)}
    assert set(together) == {"overfit_small_sample", "batch_of_four"}
    for name, run in together.items():
        [alone] = importers.read(tmp_path / f"{name}.csv")
        assert alarms(run) == alarms(alone)
    assert alarms(together["overfit_small_sample"]) and not alarms(together["batch_of_four"])


def as_csv(run: Run, path: Path, names: Mapping[str, str] | None = None) -> Path:
    """One column per signal, empty where a step has none."""
    names = names or {"loss/train": "train_loss", "loss/val": "val_loss", "lr": "lr", "grad_norm": "grad_norm"}
    columns = {k: dict(zip(run[k].steps.tolist(), run[k].values.tolist())) for k in names if k in run}
    rows = [",".join(["step", *(names[k] for k in columns)])]
    for step in sorted({s for column in columns.values() for s in column}):
        rows.append(",".join([str(step), *(repr(column[step]) if step in column else "" for column in columns.values())]))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


# -- MR-21: the same run in other formats, our own record among them


def as_record(run: Run, folder: Path) -> Path:
    writer = Writer(folder, say=lambda _: None)
    by_step: dict[int, dict[str, float]] = {}
    for name in COMMON:
        for step, value in zip(run.series(name).steps.tolist(), run.series(name).values.tolist()):
            by_step.setdefault(step, {})[name] = value
    for step in sorted(by_step):
        writer.write(step, by_step[step], time=1000.0 + step)
    assert writer.flush()
    writer.close("closed")
    return folder


@pytest.mark.parametrize("name", ["overfit_small_sample", "warm_restarts"])
def test_the_format_changes_no_diagnosis(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = common(stored(name))
    loss = run["loss/train"].steps
    dense = {k: Series(loss, run[k].at(loss)) for k in ("loss/train", "lr", "grad_norm") if k in run}
    if not np.isfinite(dense["grad_norm"].values).all():
        dense["grad_norm"] = Series(loss, np.nan_to_num(dense["grad_norm"].values, nan=1.0))
    at = run["loss/val"].steps
    # steps counted from 0 and one by one, as the writers' own run: what may differ is the format alone
    told = Run.of({k: s.values for k, s in dense.items()}, facts={"step_unit": "step"}).with_(
        {"loss/val": Series(np.minimum(np.searchsorted(loss, at), len(loss) - 1), run["loss/val"].values)}
    )
    monkeypatch.setattr(writers, "STEPS", told["loss/train"].steps)
    monkeypatch.setattr(writers, "TRAIN", told["loss/train"].values)
    monkeypatch.setattr(writers, "LR", told["lr"].values)
    monkeypatch.setattr(writers, "NORM", told["grad_norm"].values)
    monkeypatch.setattr(writers, "VAL_AT", told["loss/val"].steps)
    monkeypatch.setattr(writers, "VAL", told["loss/val"].values)
    truth = alarms(told)
    for format in ("tensorboard", "wandb", "plain_csv", "trainer_state"):
        folder = tmp_path / format
        folder.mkdir()
        [back] = importers.read(writers.FORMATS[format](folder))
        assert alarms(common(back)) == truth, format
    assert alarms(common(read(as_record(told, tmp_path / "record")))) == truth


# -- MR-22: what a page draws is not what is judged


@pytest.mark.parametrize("name", ["overfit_small_sample", "log_of_zero_by_hand"])
def test_drawing_a_run_changes_nothing_in_it_and_spikes_survive(name: str) -> None:
    run = stored(name)
    before = {k: s.values.copy() for k, s in run.signals.items()}
    diagnosis = diagnose(run)
    report(diagnosis)
    diagnosis._repr_html_()
    assert all(np.array_equal(before[k], s.values, equal_nan=True) for k, s in run.signals.items())
    loss = run["loss/train"]
    spiked = loss.values.copy()
    spiked[len(spiked) // 3] = 50 * np.nanmax(np.abs(spiked[np.isfinite(spiked)]))
    spiked[2 * len(spiked) // 3] = np.nan
    _, drawn = thinning.thin(loss.steps, spiked, 60)
    assert len(drawn) < len(spiked)
    assert np.nanmax(drawn) == np.nanmax(spiked) and np.nanmin(drawn) == np.nanmin(spiked)
    assert np.isnan(drawn).any(), "a NaN is not smoothed away"
    table = np.column_stack([spiked, spiked])
    assert np.array_equal(thinning.thin(loss.steps, table[:, 1], 60)[1], drawn, equal_nan=True), "a column of a table, too"


# -- MR-23: a metric and its mirror image


@pytest.mark.parametrize("name", ["shuffled_apart", "sigmoid_tower", "validates_a_frozen_copy", "warm_restarts"])
@pytest.mark.parametrize("column", ["val_error_rate", "val/top1_err"])
def test_an_error_rate_says_what_the_accuracy_says(name: str, column: str, tmp_path: Path) -> None:
    run = stored(name)
    assert len(run.series("accuracy/val")) >= 3, "the run was stored with its accuracy"
    plain = common(run).with_({"accuracy/val": run["accuracy/val"]})
    mirrored = common(run).with_({"accuracy/val": Series(run["accuracy/val"].steps, 1.0 - run["accuracy/val"].values)})
    names = {"loss/train": "train_loss", "loss/val": "val_loss", "lr": "lr", "grad_norm": "grad_norm"}
    [one] = importers.read(as_csv(plain, tmp_path / "accuracy.csv", {**names, "accuracy/val": "val_acc"}))
    [two] = importers.read(as_csv(mirrored, tmp_path / "error.csv", {**names, "accuracy/val": column}))
    np.testing.assert_allclose(two["accuracy/val"].values, one["accuracy/val"].values, atol=1e-12)
    assert alarms(two) == alarms(one)


@pytest.mark.parametrize(
    "column", ["val_error", "mean_squared_error", "word_error_rate", "val_top5_error", "reconstruction_error"]
)
def test_other_errors_are_no_accuracy(column: str) -> None:
    assert aliases.meaning(column).role != "accuracy"


# -- MR-08, MR-09, MR-14, MR-24 on real records


@each
def test_an_offset_of_the_steps_changes_no_diagnosis(name: str) -> None:
    run = common(stored(name))
    moved = replace(run, signals={k: Series(s.steps + 1_000_000, s.values) for k, s in run.signals.items()})
    first = (
        "LOSS010",
        "LOSS002",
        "OPTM004",
        "LOSS013",  # without a metric or a known chance level it compares with the start
    )  # judge the start of a training, which a log that begins at a million does not hold
    assert {k: v for k, v in alarms(moved).items() if k not in first} == {
        k: v for k, v in alarms(run).items() if k not in first
    }


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("every", [2, 5])
def test_a_thinner_log_of_a_healthy_run_raises_no_alarm(name: str, every: int) -> None:
    run = common(stored(name))
    thin = {k: s if k == "loss/val" else s.where(np.arange(len(s)) % every == 0) for k, s in run.signals.items()}
    assert alarms(replace(run, signals=thin)) == {}


@each
def test_irrelevant_metrics_change_no_diagnosis(name: str) -> None:
    run = stored(name)
    rng = np.random.default_rng(0)
    junk = {f"metric/other/m{i}": Series(np.arange(50), rng.normal(size=50)) for i in range(200)}
    junk |= {f"metric/other/c{i}": Series(np.arange(50), np.full(50, np.nan if i % 2 else 1.0)) for i in range(20)}
    assert alarms(run.with_(junk)) == known(name)


# -- MR-11: parts of recorded runs


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("part", [0.3, 0.6])
def test_a_part_of_a_healthy_run_raises_no_alarm(name: str, part: float) -> None:
    run = stored(name)
    assert alarms(run.between(hi=run.steps[1] * part)) == {}


# -- MR-27: the fault mended


@pytest.mark.parametrize("name", store.HEALED)
def test_the_healed_twin_has_lost_the_finding(name: str) -> None:
    codes = set(CASES[name].codes)
    assert codes & set(known(name)), "the fault is in the sick run"
    assert not codes & set(known(f"{name}__healed"))


# -- MR-28: two faults at once


def test_of_two_faults_at_least_one_is_found_and_the_other_not_denied() -> None:
    """A run that overfits and whose late losses spike: both, or a cause that stands for both."""
    run = stored("overfit_small_sample")
    loss = run["loss/train"]
    values = loss.values.copy()
    for at in np.linspace(len(values) * 0.4, len(values) * 0.9, 4).astype(int):
        values[at : at + 12] += 30 * np.nanmedian(values) * np.exp(-np.arange(len(values[at : at + 12])) / 4)
    both = alarms(run.with_({"loss/train": Series(loss.steps, values)}))
    assert "LOSS008" in both
    assert {"LOSS001", "LOSS005", "LOSS006", "LOSS007"} & set(both)
