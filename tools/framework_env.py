"""Tests against real frameworks, each group in an environment of its own: `python -m tools.framework_env lightning` (or `all`).

Makes `.venv-GROUP` (below $TRAINDX_ENVS, else in the project) when it is not there or its requirements changed: torch first,
then the frameworks under our constraints, so that no resolver replaces torch. torchvision must never be there: its PyPI build
breaks imports next to the CPU torch. A requirements file names, in comments, its tests and what is installed without its own
requirements.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests" / "integrations"
CONSTRAINTS = ROOT / "constraints.txt"


def groups() -> list[str]:
    """Every group that has requirements."""
    return sorted(p.stem.removeprefix("requirements-") for p in TESTS.glob("requirements-*.txt"))


def requirements(group: str) -> Path:
    """The requirements of a group."""
    return TESTS / f"requirements-{group}.txt"


def tests_of(group: str) -> list[Path]:
    """The test files of a group, from the `# tests:` comment of its requirements."""
    [names] = re.findall(r"^# tests: (.+)$", requirements(group).read_text(encoding="utf-8"), re.MULTILINE)
    return [TESTS / f"test_{name}.py" for name in names.split()]


def prepare(group: str, wanted: Path | None = None) -> Path:
    """The Python of `.venv-GROUP`, made and filled when necessary; `wanted` are requirements that stand elsewhere."""
    wanted = wanted or requirements(group)
    home = Path(os.environ.get("TRAINDX_ENVS") or ROOT) / f".venv-{group}"
    python, stamp = home / "bin" / "python", home / ".ready"
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[dependency-groups]")[0]
    asked = project + CONSTRAINTS.read_text(encoding="utf-8") + wanted.read_text(encoding="utf-8")
    state = hashlib.sha256(asked.encode()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == state:
        return python
    print(f"making {home.name}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    pins = home / "constraints.txt"
    pins.write_text(_pins(wanted.read_text(encoding="utf-8")), encoding="utf-8")
    install = [*pip, "install", "-q", "-c", str(pins)]
    subprocess.run([*install, "torch==2.13.0", "numpy"], check=True)
    subprocess.run([*install, "-r", str(wanted), "pytest", "-e", str(ROOT)], check=True)
    for alone in re.findall(r"without what it requires.*: (\S+)$", wanted.read_text(encoding="utf-8"), re.MULTILINE):
        subprocess.run([*install, "--no-deps", alone], check=True)
    found = subprocess.run([*pip, "show", "-qq", "torchvision"], check=False)
    if found.returncode == 0:
        raise SystemExit(f"{wanted.name} brings torchvision, which breaks imports next to this torch")
    stamp.write_text(state, encoding="utf-8")
    return python


def _pins(wanted: str) -> str:
    """Our constraints without those that a `# free of its pin` comment names."""
    free = re.findall(r"^# free of its pin.*: (\S+)$", wanted, re.MULTILINE)
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.partition("==")[0].lower() not in free) + "\n"


def main(asked: list[str]) -> int:
    """Run the marked tests of these groups; the number of those that failed."""
    if asked == ["--wild"]:
        for wanted in sorted((ROOT / "clinic" / "wild").glob("requirements-*.txt")):
            prepare(f"wild-{wanted.stem.removeprefix('requirements-')}", wanted)
        return 0
    known = groups()
    chosen = known if asked == ["all"] else asked
    if not chosen or set(chosen) - set(known):
        raise SystemExit(f"usage: python -m tools.framework_env GROUP…; there are {', '.join(known)}, or all")
    failed = []
    for group in chosen:
        test = [str(prepare(group)), "-m", "pytest", "-m", "framework", *map(str, tests_of(group))]
        done = subprocess.run(test, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
        failed += [group] if done.returncode else []
    print(f"{len(chosen) - len(failed)} of {len(chosen)} groups passed" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
