"""The environments of the framework tests, and what the docs say about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import framework_env

FRAMEWORKS = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")


def test_every_framework_test_belongs_to_one_group_and_every_group_has_its_tests() -> None:
    named = [path for group in framework_env.groups() for path in framework_env.tests_of(group)]
    marked = {p for p in framework_env.TESTS.glob("test_*.py") if "pytest.mark.framework" in p.read_text(encoding="utf-8")}
    marked.discard(Path(__file__).resolve())
    assert {p.resolve() for p in named} == {p.resolve() for p in marked} and len(named) == len(set(named))


@pytest.mark.parametrize("group", framework_env.groups())
def test_nothing_asks_for_torchvision_and_versions_are_pinned(group: str) -> None:
    text = framework_env.requirements(group).read_text(encoding="utf-8")
    assert not re.search(r"^torchvision", text, re.MULTILINE)
    assert re.search(r"^[\w-]+==", text, re.MULTILINE)


@pytest.mark.parametrize("group", ["huggingface", "lightning", "loops", "trackers"])
def test_the_docs_name_the_versions_that_are_tested(group: str) -> None:
    text = framework_env.requirements(group).read_text(encoding="utf-8")
    for name, version in re.findall(r"([\w-]+)==([\d.]+)", text):
        assert version in FRAMEWORKS, f"docs/frameworks.md does not say {name} {version}"
