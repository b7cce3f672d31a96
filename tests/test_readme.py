"""The README's programs run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from traindx.rule import FAMILIES, catalogue

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block {i}" for i in range(len(BLOCKS))])
def test_the_block_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_it_counts_the_conditions_right() -> None:
    told = re.search(r"Over (\d+) conditions in (\d+) families", TEXT)
    assert told is not None
    # rounded down, so that a new rule touches no existing file
    assert int(told[1]) < len(catalogue()) <= int(told[1]) + 30 and int(told[2]) == len(FAMILIES)


def test_its_pictures_and_links_are_there() -> None:
    for target in re.findall(r"\]\(((?!http)[^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target


def test_it_has_exactly_two_commands_of_make() -> None:
    assert re.findall(r"^\$ make (\w+)", TEXT, re.MULTILINE) == ["demo", "test"]
