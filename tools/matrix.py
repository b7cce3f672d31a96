"""Run the tests that need no torch on every Python that is installed: `make test-matrix`. It names each that is missing.

The newest dependencies are tested on every Python, the lowest that we allow on the oldest: later ones have no wheels of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NEEDED = ["pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "pandas", "pyarrow", "tensorboard", "fsspec", "jsonschema"]
TESTS = [
    "tests/importers",
    "tests/rules",
    "tests/record",
    *(f"tests/test_{name}.py" for name in ("diagnosis", "cli", "settings", "team", "gates", "common")),
]


def main() -> int:
    failed = 0
    for version in VERSIONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not installed here, so not tested", flush=True)
            continue
        for which in ("newest", "lowest") if version == VERSIONS[0] else ("newest",):
            home = Path(f".venv-{version}")
            subprocess.run([python, "-m", "venv", "--clear", home], check=True)
            own = [home / "bin" / "python", "-m"]
            wanted = ["-e", ".", *(lowest() if which == "lowest" else [])]
            subprocess.run([*own, "pip", "install", "-q", *wanted, *NEEDED], check=True)
            done = subprocess.run(
                [*own, "pytest", "-n", "2", "-m", "not slow and not framework", "-p", "no:cacheprovider", *TESTS]
            )
            failed += done.returncode != 0
            print(f"Python {version}, {which} dependencies, no torch: exit {done.returncode}", flush=True)
    return int(failed > 0)


def interpreter(version: str) -> str | None:
    """A Python of this version that starts: on the path, or one of pyenv's."""
    pyenv = sorted(map(str, (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python")))
    for python in (shutil.which(f"python{version}"), *reversed(pyenv)):
        if python is not None and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    return None


def lowest() -> list[str]:
    """Every dependency at the lowest version that we allow."""
    listed = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return [one.replace(">=", "==") for one in listed]


if __name__ == "__main__":
    sys.exit(main())
