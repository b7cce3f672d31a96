"""What sick runs have in common: named where it is so, and nothing where it is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from traindx.cli import cli
from traindx.diagnosis import Diagnosis, common, diagnose
from traindx.diagnosis.row import row, settings_of
from traindx.errors import UsageError
from traindx.report.sweep import ordered
from traindx.run import Run

_RUN = Run.of({"loss/train": [2.0 / (1 + i / 20) for i in range(60)], "accuracy/val": [i / 100 for i in range(60)]})
_HEALTHY = diagnose(_RUN)


def _judged(settings: dict[str, Any], sick: bool, name: str = "") -> Diagnosis:
    verdict = replace(_HEALTHY.verdict_, name="restart" if sick else "healthy")
    return replace(_HEALTHY, run=replace(_RUN, facts={"hparams": settings}, source=f"runs/{name}/log.csv"), verdict_=verdict)


def _sweep(settings: list[dict[str, Any]], sick: list[bool]) -> common.Sweep:
    return common.sweep([row(_judged(s, bad, f"r{i}")) for i, (s, bad) in enumerate(zip(settings, sick))])


GRID = [{"lr": lr, "opt": opt, "seed": seed} for lr in (0.01, 0.1, 1.0, 10.0) for opt in ("sgd", "adam") for seed in range(4)]


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        (lambda s: s["lr"] >= 1, "lr ≥ 1"),
        (lambda s: s["opt"] == "adam", "opt = adam"),
        (lambda s: s["lr"] >= 1 and s["opt"] == "adam", "lr ≥ 1 and opt = adam"),
    ],
)
def test_the_planted_cause_is_named(plant: Any, text: str) -> None:
    found = _sweep(GRID, [plant(s) for s in GRID])
    assert [set(c.text.split(" and ")) for c in found.causes] == [set(text.split(" and "))]
    assert found.causes[0].sick == found.causes[0].of and found.causes[0].elsewhere[0] == 0


def test_nothing_is_claimed_where_there_is_nothing() -> None:
    claims = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        settings = [
            {"lr": float(rng.random()), "opt": str(rng.choice(["a", "b", "c"])), "wd": float(rng.random())} for _ in range(30)
        ]
        claims += bool(_sweep(settings, list(rng.random(30) < 0.3)).causes)
    assert claims <= 3  # 5 %; the correction promises 1 %


def test_seeds_are_a_band_and_no_cause() -> None:
    found = _sweep([{"lr": 0.1, "seed": i} for i in range(12)], [i < 6 for i in range(12)])
    assert not found.causes and found.bands == (tuple(range(12)),)
    assert "12 seeds of one setting, accuracy/val 0.59: 6 sick." in found.sentences()


def test_a_run_that_cannot_be_judged_counts_on_neither_side() -> None:
    diagnoses = [_judged(s, s["lr"] >= 1, f"r{i}") for i, s in enumerate(GRID)]
    unknown = [replace(d, verdict_=replace(d.verdict_, name="cannot-tell")) for d in diagnoses[:8]]
    [cause] = common.sweep([row(d) for d in (*unknown, *diagnoses[8:])]).causes
    assert cause.of + cause.elsewhere[1] == len(GRID) - 8


def test_settings_from_a_command_line() -> None:
    run = Run.of({}, facts={"argv": ["--lr", "0.1", "--opt=adam", "--amp", "--shift", "-3", "data.csv", "--name", "x"]})
    assert settings_of(run) == {"lr": 0.1, "opt": "adam", "amp": "true", "shift": -3.0}


def test_names_tell_runs_apart() -> None:
    def named(*sources: str, names: tuple[str, ...] = ("", "")) -> list[str]:
        return common.names([replace(row(_HEALTHY), source=s, label=n) for s, n in zip(sources, names)])

    assert named("/a/b/one/log.csv", "/a/b/two/log.csv") == ["one", "two"]
    assert len(set(named("", ""))) == 2
    assert named("/a/x", "/a/y", names=("bright-sun", "dark-moon")) == ["bright-sun", "dark-moon"]
    assert named("/a/x", "/a/y", names=("again", "again")) == ["again (x)", "again (y)"]


def test_an_unknown_metric_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no run has a metric 'f1'"):
        common.sweep([row(_HEALTHY)] * 2, by="f1")


def test_a_folder_on_the_command_line(tmp_path: Path) -> None:
    for i in range(3):
        home = tmp_path / f"exp{i}"
        home.mkdir()
        (home / "config.json").write_text(json.dumps({"lr": 10.0**-i}))
        rows = [f"{s},{2 / (1 + s / 20):.4f},{0.9 - 0.8 * 0.9**s + i / 100:.4f}" for s in range(60)]
        (home / "log.csv").write_text("step,train_loss,val_acc\n" + "\n".join(rows))
    (tmp_path / "broken.csv").write_bytes(b"\x00\x01 no log")
    asked = ["diagnose", str(tmp_path), "--sort", "metric", "--by", "val_acc", "--fail-on", "never"]
    table = CliRunner().invoke(cli, [*asked, "--format", "csv"], standalone_mode=False).stdout.splitlines()
    assert table[0].startswith("run,best val_acc,last,lr,verdict")
    assert [line.split(",")[0] for line in table[1:]] == ["exp2", "exp1", "exp0"]
    told = json.loads(CliRunner().invoke(cli, [*asked, "--format", "json"], standalone_mode=False).stdout)
    assert told["sweep"]["runs"][0]["settings"] == {"lr": 0.01} and "Best: exp2" in " ".join(told["sweep"]["sentences"])


def _curve(home: Path, last: float, file: str = "log.csv") -> None:
    home.mkdir(parents=True)
    rows = [f"{e},{2.3 - last * e / 20:.4f},{0.1 + last * e / 25:.4f}" for e in range(20)]
    (home / file).write_text("epoch,train_loss,val_acc\n" + "\n".join(rows))


def _in_folder(home: Path, i: int) -> None:
    _curve(home / f"exp{i}", i)
    (home / f"exp{i}" / "settings.json").write_text(json.dumps({"lr": 0.1 + i}))


def _in_hydra(home: Path, i: int) -> None:
    _curve(home / str(i), i)
    (home / str(i) / ".hydra").mkdir()
    (home / str(i) / ".hydra" / "config.yaml").write_text(f"optim:\n  lr: {0.1 + i}\n  name: sgd\n")


def _above(home: Path, i: int) -> None:
    _curve(home / f"exp{i}" / "logs", i)
    (home / f"exp{i}" / "config.yaml").write_text(f"lr: {0.1 + i}\n")


def _in_name(home: Path, i: int) -> None:
    _curve(home / f"adam-lr_{0.1 + i}-seed3", i)


def _in_console(home: Path, i: int) -> None:
    lines = [f"Epoch {e}/20 | train loss {2.3 - i * e / 20:.4f} | val acc {0.1 + i * e / 25:.2%}" for e in range(1, 20)]
    (home / f"slurm-{i}.out").write_text("\n".join([f"Namespace(lr={0.1 + i}, data='/d')", *lines]))


def _in_command(home: Path, i: int) -> None:
    _in_console(home, i)
    text = (home / f"slurm-{i}.out").read_text()
    (home / f"slurm-{i}.out").write_text(f"+ python train.py --lr {0.1 + i}\n{text.partition(chr(10))[2]}")


@pytest.mark.parametrize("put", [_in_folder, _in_hydra, _above, _in_name, _in_console, _in_command])
def test_settings_are_found_where_people_leave_them(tmp_path: Path, put: Any) -> None:
    from traindx.report.runs import Runs

    for i in range(3):
        put(tmp_path, i)
    found = Runs([tmp_path]).sweep()
    rates = [next((v for k, v in one.items() if k.endswith("lr")), None) for one in found.settings]
    assert sorted(rates) == [0.1, 1.1, 2.1] and all(len(one) == 1 for one in found.settings)


def test_settings_of_another_log_are_not_taken(tmp_path: Path) -> None:
    from traindx.importers import files_beside

    for name in ("a.csv", "b.csv", "a_config.yaml", "model.json"):
        (tmp_path / name).write_text("x: 1")
    assert [f.name for f in files_beside(tmp_path / "a.csv")] == ["a_config.yaml"] and not files_beside(tmp_path / "b.csv")
    (tmp_path / "deep").mkdir()
    assert not files_beside(tmp_path / "deep" / "a.csv")


def test_a_word_of_its_own_for_each_run_is_no_setting() -> None:
    made = _sweep([{"lr": 0.1 * (i % 2 + 1), "seed": i // 2, "git": f"c{i}"} for i in range(6)], [False] * 6)
    assert made.settings[0] == {"lr": 0.1} and len(made.bands) == 2 and len(made.winner) == 3
    assert "2 settings were run with several seeds; in all of them the seeds agree." in made.sentences()
    parted = _sweep([{"lr": 0.1 * (i % 2 + 1), "seed": i // 2} for i in range(6)], [i == 0 for i in range(6)])
    assert "lr 0.1: 1 of 3 seeds sick." in parted.sentences() and parted.winner == (1, 3, 5)


def test_shuffling_counts_conditions_that_hold_for_nearly_the_same_runs_as_one() -> None:
    settings = [{"lr": float(i), "opt": "ab"[i % 2]} for i in range(24)]
    found = _sweep(settings, [i >= 18 and i != 21 for i in range(24)])
    assert [c.text for c in found.causes] == ["lr ≥ 18"] and found.causes[0].p <= common.ALPHA


def test_the_gate_that_failed_is_named_for_a_folder(tmp_path: Path) -> None:
    for i in range(2):
        _in_folder(tmp_path, i)
    asked = ["diagnose", str(tmp_path), "--fail-on", "never", "--require", "val_acc >= 0.5", "--format", "markdown"]
    done = CliRunner().invoke(cli, asked, standalone_mode=False)
    assert done.return_value == 1 and "**failed** val\\_acc" in done.stdout and "exp0" in done.stdout.partition("failed")[2]


def test_the_dashboard_shows_the_same_numbers(tmp_path: Path) -> None:
    from traindx.dashboard.library import Library

    for i in range(2):
        _in_folder(tmp_path, i)
    library = Library(tmp_path)
    for entry in library.entries():
        library.judgement(entry, first=True)
    while not all(library.judgement(e) for e in library.entries()):
        pass
    told = library.together()
    assert told["metric"] == "val_acc" and sorted(r["settings"]["lr"] for r in told["runs"].values()) == [0.1, 1.1]
    assert any(line.startswith("Best: exp1") for line in told["said"])


def test_a_terminal_shows_the_first_of_very_many() -> None:
    from traindx.report.sweep import MOST_ROWS, as_csv, plain_text

    found = _sweep([{"lr": float(i)} for i in range(MOST_ROWS + 5)], [False] * (MOST_ROWS + 5))
    assert "5 more runs" in plain_text(found) and len(as_csv(found).splitlines()) == MOST_ROWS + 6


def test_a_column_that_is_not_there_cannot_be_sorted_by() -> None:
    made = _sweep([{"lr": 0.1}, {"lr": 0.2}], [False, True])
    with pytest.raises(UsageError, match="not 'lrr'; those are lr"):
        ordered(made, "lrr")


def test_the_observed_rate_is_a_setting_unless_it_warms_up() -> None:
    rates = {"flat": [0.1, 0.1, 0.1], "decay": [0.1, 0.05, 0.01], "warm-up": [0.01, 0.1, 0.05]}
    runs = {k: Run.of({"lr": v}) for k, v in rates.items()}
    assert {k: settings_of(r).get("lr") for k, r in runs.items()} == {"flat": 0.1, "decay": 0.1, "warm-up": None}
    assert settings_of(replace(runs["flat"], facts={"hparams": {"learning_rate": 1.0}})) == {"learning_rate": 1.0}


def _scored(settings: list[dict[str, Any]], sick: list[bool], scores: list[float]) -> common.Sweep:
    rows = [row(_judged(s, bad, f"r{i}")) for i, (s, bad) in enumerate(zip(settings, sick))]
    return common.sweep([replace(r, metrics={"accuracy/val": (v, v, True)}) for r, v in zip(rows, scores)])


NETS = [{"lr": lr, "opt": o, "act": a} for lr in (0.1, 0.3, 1.0, 3.0, 10.0) for o in ("sgd", "adam") for a in ("relu", "tanh")]


def _score(s: dict[str, Any], best: float) -> float:
    return 0.9 - 0.1 * abs(np.log10(s["lr"] / best))


@pytest.mark.parametrize(
    ("best", "worst", "told"),
    [
        (1.0, 1e9, "Try lr 0.3–3."),
        (0.3, 3.0, "Try lr 0.1–1."),
        (1.0, 3.0, "Try lr 0.3–1."),  # a rate that was sick is not suggested
        (10.0, 1e9, "Try lr 3–10 (no run tried more)."),
        (0.1, 1e9, "Try lr 0.1–0.3 (no run tried less)."),
    ],
)
def test_what_to_try_next_lies_around_the_best_sound_runs(best: float, worst: float, told: str) -> None:
    sick = [s["lr"] >= worst for s in NETS]
    found = _scored(
        NETS, sick, [0.1 if bad else _score(s, best) + 0.002 * np.sin(7 * i * i) for i, (s, bad) in enumerate(zip(NETS, sick))]
    )
    assert found.advice == told and told in found.sentences()


def test_two_settings_are_suggested_together() -> None:
    grid = NETS * 2
    scores = [_score(s, 1.0) + (0.15 if s["act"] == "relu" else 0) + 0.002 * np.sin(7 * i * i) for i, s in enumerate(grid)]
    assert _scored(grid, [False] * len(grid), scores).advice == "Try act relu with lr 0.3–3."
    sick = [s["opt"] == "adam" and s["lr"] >= 3 for s in grid]  # the upper end holds sick runs: only what was sound is left
    assert _scored(grid, sick, scores).advice == "Try act relu with lr 1."


def test_nothing_is_suggested_where_the_metric_is_noise_or_nothing_differs() -> None:
    advised = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        advised += bool(_scored(NETS, list(rng.random(len(NETS)) < 0.2), list(rng.random(len(NETS)))).advice)
    assert advised <= 3
    assert not _scored([{"lr": 0.1}] * 8, [False] * 8, [0.5] * 8).advice
    assert not _scored(NETS, [True] * len(NETS), [0.1] * len(NETS)).advice


def test_a_run_without_a_setting_does_not_hide_the_cause() -> None:
    settings = [dict(s) for s in GRID]
    del settings[0]["lr"]
    [cause] = _sweep(settings, [s["lr"] >= 1 for s in GRID]).causes
    assert cause.text == "lr ≥ 1"


def test_a_broken_file_of_settings_is_said_and_costs_only_itself(tmp_path: Path) -> None:
    from traindx.api import diagnose as judge

    for i, lr in enumerate((0.01, 0.1, 0.3, 1.0, 3.0, 10.0) * 3):
        home = tmp_path / f"exp{i:02}"
        home.mkdir()
        (home / "config.json").write_text('{"lr": 0.1,\n "opt": ' if i == 0 else json.dumps({"lr": lr}))
        flat = [f"{s},{2.3 + 0.02 * np.sin(7 * s):.4f},{0.1 + 0.005 * np.sin(5 * s):.4f}" for s in range(60)]
        good = [f"{s},{2 / (1 + s / 20):.4f},{0.9 - 0.8 * 0.9**s + i / 1000:.4f}" for s in range(60)]
        (home / "log.csv").write_text("step,train_loss,val_acc\n" + "\n".join(flat if lr >= 1 else good))
    told = "the settings in config.json were left out: line 2 is not JSON"
    assert told in judge(tmp_path / "exp00").run.notes and told in judge(tmp_path / "exp00" / "log.csv").run.notes
    page = CliRunner().invoke(cli, ["diagnose", str(tmp_path), "--fail-on", "never"], standalone_mode=False).stdout
    assert "lr ≥ 1: 9 of 9 are sick, 0 of 8 elsewhere" in page and f"exp00: {told}." in page


def test_a_flat_log_is_not_told_that_a_huge_rate_is_too_low(tmp_path: Path) -> None:
    rows = [f"{s},{2.3 + 0.02 * np.sin(7 * s):.4f},{0.1 + 0.005 * np.sin(5 * s):.4f}" for s in range(80)]
    (tmp_path / "log.csv").write_text("step,train_loss,val_acc\n" + "\n".join(rows))
    from traindx.api import diagnose as judge

    found = {}
    for rate in (1e-6, 10.0):
        (tmp_path / "config.json").write_text(json.dumps({"optimizer": {"learning_rate": rate}}))
        found[rate] = judge(tmp_path / "log.csv")
    low, high = found[1e-6], found[10.0]
    assert [f.code for f in low.findings] == [f.code for f in high.findings] and low.verdict == high.verdict == "restart"
    assert "lr-too-low" in [s.cause.name for s in low.likely]
    assert "lr-too-low" not in [s.cause.name for s in high.likely]
    assert "rate" not in high.verdict_.headline


def test_a_list_of_runs_of_which_none_is_judged_yet_says_nothing() -> None:
    assert common.sweep([]).sentences() == []
