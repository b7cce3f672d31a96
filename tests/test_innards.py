"""The private names of torch stand in one file, and one that is gone is told by its name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from traindx import innards
from traindx.errors import EnvironmentFault

SOURCE = Path(innards.__file__).parent


def test_no_other_file_takes_a_private_name_of_torch() -> None:
    private = re.compile(r"\btorch\._(?!_|dynamo)\w+|\b(torch|nn)\.[A-Z_a-z.]+\._(?!_)\w+")
    allowed = {'getattr(torch._C, "_distributed_c10d", None)'}  # looked for, not leaned on
    for path in sorted(SOURCE.rglob("*.py")):
        if path != Path(innards.__file__):
            for line in path.read_text(encoding="utf-8").splitlines():
                if private.search(line) and not any(word in line for word in allowed):
                    pytest.fail(f"{path.relative_to(SOURCE)}: {line.strip()}")


def test_a_name_that_is_gone_is_told() -> None:
    with pytest.raises(EnvironmentFault, match=r"has no torch\._C\._get_gone, which traindx needs"):
        innards._named("_C._get_gone")


def test_a_torch_without_it_trains_unobserved(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    program = (
        "import sys, torch\ndel torch._C._get_tracing_state\nsys.argv = ['traindx', 'run', 'train.py']\n"
        "from traindx.cli import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "has no torch._C._get_tracing_state" in done.stderr and "Traceback" not in done.stderr
