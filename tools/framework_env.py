"""The tests of one framework in an environment of its own: `python -m tools.framework_env lightning` (or `all`).

Makes `.venv-NAME` when it is not there or its requirements changed: torch first, then the framework under our constraints,
so that no resolver replaces torch. torchvision must never be there: its PyPI build breaks imports next to the CPU torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests" / "integrations"


def names() -> list[str]:
    """Every framework that has requirements."""
    return sorted(p.stem.removeprefix("requirements-") for p in TESTS.glob("requirements-*.txt"))


def prepare(name: str) -> Path:
    """The Python of `.venv-NAME`, made and filled when necessary."""
    wanted = TESTS / f"requirements-{name}.txt"
    home = ROOT / f".venv-{name}"
    python, stamp = home / "bin" / "python", home / ".ready"
    if stamp.exists() and stamp.stat().st_mtime > max(wanted.stat().st_mtime, (ROOT / "pyproject.toml").stat().st_mtime):
        return python
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    install = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*install, "torch==2.13.0", "numpy"], check=True)
    subprocess.run([*install, "-r", str(wanted)], check=True)
    subprocess.run([*install, "pytest", "-e", str(ROOT)], check=True)
    found = subprocess.run([str(python), "-m", "pip", "show", "-qq", "torchvision"], check=False)
    if found.returncode == 0:
        raise SystemExit(f"{wanted.name} brings torchvision, which breaks imports next to this torch")
    stamp.touch()
    return python


def main(asked: list[str]) -> int:
    """Run the marked tests of these frameworks; the number of those that failed."""
    known = names()
    chosen = known if asked == ["all"] else asked
    if not chosen or set(chosen) - set(known):
        raise SystemExit(f"usage: python -m tools.framework_env NAME…; there are {', '.join(known)}, or all")
    failed = 0
    for name in chosen:
        test = [str(prepare(name)), "-m", "pytest", "-m", "framework", str(TESTS / f"test_{name}.py")]
        failed += subprocess.run(test, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
