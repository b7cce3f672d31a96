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
from traindx.errors import UsageError
from traindx.run import Run

_RUN = Run.of({"loss/train": [2.0 / (1 + i / 20) for i in range(60)], "accuracy/val": [i / 100 for i in range(60)]})
_HEALTHY = diagnose(_RUN)


def _judged(settings: dict[str, Any], sick: bool, name: str = "") -> Diagnosis:
    verdict = replace(_HEALTHY.verdict_, name="restart" if sick else "healthy")
    return replace(_HEALTHY, run=replace(_RUN, facts={"hparams": settings}, source=f"runs/{name}/log.csv"), verdict_=verdict)


def _sweep(settings: list[dict[str, Any]], sick: list[bool]) -> common.Sweep:
    return common.sweep([_judged(s, bad, f"r{i}") for i, (s, bad) in enumerate(zip(settings, sick))])


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
    assert "12 seeds of one setting: accuracy/val 0.59 to 0.59, 6 sick." in found.sentences()


def test_a_run_that_cannot_be_judged_counts_on_neither_side() -> None:
    diagnoses = [_judged(s, s["lr"] >= 1, f"r{i}") for i, s in enumerate(GRID)]
    unknown = [replace(d, verdict_=replace(d.verdict_, name="cannot-tell")) for d in diagnoses[:8]]
    [cause] = common.sweep([*unknown, *diagnoses[8:]]).causes
    assert cause.of + cause.elsewhere[1] == len(GRID) - 8


def test_settings_from_a_command_line() -> None:
    run = Run.of({}, facts={"argv": ["--lr", "0.1", "--opt=adam", "--amp", "--shift", "-3", "data.csv", "--name", "x"]})
    assert common.settings_of(run) == {"lr": 0.1, "opt": "adam", "amp": "true", "shift": -3.0}


def test_names_tell_runs_apart() -> None:
    at = [replace(_RUN, source=s) for s in ("/a/b/one/log.csv", "/a/b/two/log.csv")]
    assert common.names(at) == ["one", "two"]
    assert len(set(common.names([_RUN, _RUN]))) == 2


def test_an_unknown_metric_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no run has a metric 'f1'"):
        common.sweep([_HEALTHY, _HEALTHY], by="f1")


def test_a_folder_on_the_command_line(tmp_path: Path) -> None:
    for i in range(3):
        home = tmp_path / f"exp{i}"
        home.mkdir()
        (home / "config.json").write_text(json.dumps({"lr": 10.0**-i}))
        rows = [f"{s},{2 / (1 + s / 20):.4f},{0.9 - 0.8 * 0.9**s + i / 100:.4f}" for s in range(60)]
        (home / "log.csv").write_text("step,train_loss,val_acc\n" + "\n".join(rows))
    (tmp_path / "broken.csv").write_bytes(b"\x00\x01 no log")
    asked = ["diagnose", str(tmp_path), "--sort", "metric", "--by", "val_acc", "--fail-on", "never"]
    table = CliRunner().invoke(cli, [*asked, "--format", "csv"], standalone_mode=False).output.splitlines()
    assert table[0].startswith("run,best metric/val/acc,last,lr,verdict") or table[0].startswith(
        "run,best accuracy/val,last,lr,verdict"
    )
    assert [line.split(",")[0] for line in table[1:]] == ["exp2", "exp1", "exp0"]
    told = json.loads(CliRunner().invoke(cli, [*asked, "--format", "json"], standalone_mode=False).output)
    assert told["sweep"]["runs"][0]["settings"] == {"lr": 0.01} and "Best: exp2" in " ".join(told["sweep"]["sentences"])
