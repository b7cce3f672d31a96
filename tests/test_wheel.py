"""The built wheel works where nothing but its declared dependencies is installed."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_wheel_works_without_development_packages(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)], check=True, capture_output=True
    )
    [wheel] = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "\n".join(f"{i},{2 / (1 + i / 50):.5f}" for i in range(400)))
    for args in (
        ["--help"],
        ["rules"],
        ["doctor"],
        ["diagnose", str(log)],
        ["report", str(log), "-o", str(tmp_path / "r.html")],
    ):
        done = subprocess.run([tmp_path / "env" / "bin" / "traindx", *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (args, done.stderr)
    names = subprocess.run([python, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, check=True).stdout
    assert ".pth" not in names and "tests/" not in names
