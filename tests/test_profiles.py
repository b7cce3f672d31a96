"""`--profile sagemaker`: names of another tool select and limit our conditions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from traindx.cli import main
from traindx.cli.profiles import PROFILES, applied
from traindx.rule import catalogue
from traindx.settings import Settings


@pytest.mark.parametrize("name", PROFILES)
def test_codes_and_limits_exist_here(name: str) -> None:
    rules = catalogue()
    for row in PROFILES[name]:
        assert set(row.codes) <= set(rules), row.name
        assert set(row.limits) <= set(row.codes), row.name
        for code, limits in row.limits.items():
            assert set(limits) <= set(rules[code].settings), (row.name, code)
        assert row.codes or row.note, row.name


def test_the_profile_selects_its_conditions_and_the_users_own_limit_wins() -> None:
    chosen = applied(Settings(rules={"DATA011": {"ratio": 50.0}}), "sagemaker")
    assert "GRAD001" in chosen.select and "TUNE001" not in chosen.select
    assert chosen.rules["DATA011"] == {"ratio": 50.0, "least_labels": 500}


def test_names_of_the_other_tool_work_as_codes() -> None:
    chosen = applied(Settings(select=("VANISHINGGRADIENT", "LOSS001"), ignore=("DEADRELU",)), "sagemaker")
    assert chosen.select == ("GRAD001", "LOSS001") and chosen.ignore == ("ACTV001",)


def test_diagnose_says_which_rules_of_the_other_tool_fired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    rng = np.random.default_rng(0)
    loss = np.r_[2.0 / (1 + np.arange(150) / 20) + 0.01 * rng.normal(size=150), np.full(50, np.nan)]
    log.write_text("step,train_loss\n" + "\n".join(f"{i},{v}" for i, v in enumerate(loss)), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", str(log), "--profile", "sagemaker", "--format", "json"])
    out, err = capsys.readouterr()
    assert ended.value.code == 1 and "ExplodingTensor (NUMR001)" in err
    report = json.loads(out)
    assert {f["code"] for f in report["findings"]} <= {c for row in PROFILES["sagemaker"] for c in row.codes}
