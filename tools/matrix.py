"""Run the tests that need no torch on every Python that is installed: `make test-matrix`. It names each that is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TESTS = [
    "tests/importers",
    "tests/rules",
    "tests/record",
    "tests/test_diagnosis.py",
    "tests/test_cli.py",
    "tests/test_settings.py",
]


def main() -> int:
    failed = 0
    for version in VERSIONS:
        python = shutil.which(f"python{version}")
        if python is None:
            print(f"Python {version}: not installed here, so not tested")
            continue
        home = Path(f".venv-{version}")
        for lowest in (False, True):
            subprocess.run([python, "-m", "venv", "--clear", home], check=True)
            own = [home / "bin" / "python", "-m"]
            wanted = ["-e", "."] if not lowest else ["-e", ".", *_lowest()]
            subprocess.run([*own, "pip", "install", "-q", *wanted, "pytest", "pytest-timeout", "hypothesis"], check=True)
            done = subprocess.run([*own, "pytest", "-q", "-m", "not slow and not framework", "-p", "no:cacheprovider", *TESTS])
            failed += done.returncode != 0
            print(f"Python {version}, {'lowest' if lowest else 'newest'} dependencies, no torch: exit {done.returncode}")
    return int(failed > 0)


def _lowest() -> list[str]:
    """Every dependency at the lowest version that we allow."""
    import tomllib

    listed = tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]
    return [one.replace(">=", "==") for one in listed]


if __name__ == "__main__":
    sys.exit(main())
