"""Build what a release consists of, and look at it: `make release`. Nothing is published.

Wheel and sdist are built, checked by twine, opened and looked through; some tests are run in the unpacked sdist. The wheel is
installed in an environment of its own without torch and diagnoses a log. The list of everything it brings (an SBOM) is written
beside it. Then the commit is tagged.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

from traindx import __version__

DIST = Path("dist")
SDIST_TESTS = ("tests/record/test_format.py", "tests/record/test_reader.py", "tests/test_settings.py", "tests/test_common.py")
CSV = "step,loss,val_acc\n" + "".join(f"{i},{2.3 * 0.97**i:.4f},{0.95 - 0.85 * 0.95**i:.4f}\n" for i in range(120))


def run(*words: str | Path, cwd: Path | None = None) -> str:
    print("$", *words, flush=True)
    return subprocess.run([str(w) for w in words], check=True, cwd=cwd, stdout=subprocess.PIPE, text=True).stdout


def built() -> tuple[Path, Path]:
    for old in DIST.glob("traindx-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", DIST)
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.glob("traindx-*"))
    [wheel], [sdist] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def look(wheel: Path, sdist: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    odd = [n for n in names if not n.startswith(("traindx/", f"traindx-{__version__}.dist-info/")) or n.endswith(".pth")]
    assert not odd, f"the wheel holds more than the package: {odd[:5]}"
    for wanted in ("traindx/py.typed", "traindx/cli/demo_scripts/overfitting.csv"):
        assert wanted in names, f"the wheel lacks {wanted}"
    with tarfile.open(sdist) as files:
        inside = {n.split("/", 1)[1] for n in files.getnames() if "/" in n}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml"} <= inside, "the sdist lacks a file"


def tested(sdist: Path) -> None:
    """The sdist alone: its tests of the record, of the settings and of what needs no torch pass."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as files:
            files.extractall(folder, filter="data")
        [home] = Path(folder).iterdir()
        run(
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
            "-o",
            "pythonpath=src tests .",
            *SDIST_TESTS,
            cwd=home,
        )


def tried(wheel: Path) -> None:
    """A fresh environment, without torch: the version is right and a log is diagnosed."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "env", with_pip=True)
        python = home / "env" / "bin" / "python"
        run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel.resolve())
        (home / "log.csv").write_text(CSV)
        assert __version__ in run(python, "-P", "-m", "traindx", "--version", cwd=home)
        assert "HEALTHY" in run(python, "-P", "-m", "traindx", "diagnose", "log.csv", cwd=home)
        kept = sum(f.stat().st_size for f in (home / "env").rglob("*") if f.is_file() and not f.is_symlink())
        print(f"installed without torch: {kept / 2**20:.0f} MB, pip included")
        run(sys.executable, "-m", "cyclonedx_py", "environment", python, "-o", DIST / f"traindx-{__version__}-sbom.json")


def main() -> None:
    text = Path("CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {__version__}" in text, (
        f"CHANGELOG.md has no entry for {__version__}: run towncrier build --version {__version__}"
    )
    assert not list(Path("changes").glob("*.*.md")), "changes/ still holds fragments: run towncrier build"
    wheel, sdist = built()
    look(wheel, sdist)
    tested(sdist)
    tried(wheel)
    if "--tag" in sys.argv:
        run("git", "tag", "-a", f"v{__version__}", "-m", f"traindx {__version__}")
    print(f"{wheel} and {sdist} are ready")


if __name__ == "__main__":
    main()
