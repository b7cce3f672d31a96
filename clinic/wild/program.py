"""A program of the ward: where it comes from, how it is run, and what is true of it.

`programs.toml` holds names, commits, command lines and the truth in words, never the code. Programs from public repositories
are taken from a folder of checkouts (`OWNER+NAME`), which is no part of this project; programs on packages are short drivers of
our own under `drivers/` that call the library's trainer. Half of the programs are sealed by a coin, the hash of their name.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STANDINS = HERE / "standins"
MANIFEST = HERE / "programs.toml"
_NUMBER = r"(?:[-+]?[\d._]+(?:e[-+]?\d+)?(?:\s*\*\*?\s*\d+)?|True|False|None|'[^'\n]*'|\"[^\"\n]*\")"


class BadProgram(ValueError):
    """An entry of the manifest that does not fit its program."""


@dataclass(frozen=True)
class Program:
    """One entry of the manifest."""

    name: str
    kind: str
    source: str  # OWNER/NAME@COMMIT, or the package
    path: str  # the program's file in the repository, or the driver's name
    root: str = ""  # the folder of the repository that is copied; the file's own unless said
    args: tuple[str, ...] = ()
    env: str = ""  # group of packages: agents, text, models
    data: tuple[str, ...] = ()  # "maker:file": local data in place of what would be downloaded
    set: dict[str, Any] = field(default_factory=dict)  # numbers the program names: fewer steps, smaller batches
    swap: tuple[tuple[str, str], ...] = ()  # names that are spelled otherwise today
    also: tuple[str, ...] = ()  # further files that `set` and `swap` go through
    words: str = ""  # other edits, in words
    truth: str = "healthy"
    remarks: tuple[str, ...] = ()  # codes that are true of it, at whatever severity
    metric: str = ""  # pattern of the printed figure by which it is measured; the last match counts
    better: str = "low"
    exit_code: int = 0
    repeatable: bool = True  # the same numbers twice, bare

    @property
    def public(self) -> bool:
        return "@" in self.source

    @property
    def sealed(self) -> bool:
        """The coin: tossed by the name, before anybody looked."""
        return coin(self.name)

    @property
    def main(self) -> str:
        """The program's file in its working folder."""
        return self.path.removeprefix(self.root + "/") if self.root else Path(self.path).name


def coin(name: str) -> bool:
    """True for the half that is set aside."""
    return hashlib.sha256(f"wild:{name}".encode()).digest()[0] % 2 == 1


@cache
def programs() -> tuple[Program, ...]:
    """The manifest, by name."""
    table = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))
    out = [_read(entry, table["commits"]) for entry in table["program"]]
    if len({p.name for p in out}) < len(out):
        raise BadProgram("two programs have the same name")
    return tuple(sorted(out, key=lambda p: p.name))


def _read(entry: dict[str, Any], commits: dict[str, str]) -> Program:
    values = dict(entry)
    for name in ("args", "data", "also", "remarks"):
        values[name] = tuple(str(v) for v in entry.get(name, ()))
    values["swap"] = tuple((old, new) for old, new in entry.get("swap", ()))
    if values["source"] in commits:
        values["source"] += "@" + commits[values["source"]]
    try:
        return Program(**values)
    except TypeError as why:
        raise BadProgram(f"{entry.get('name')}: {why}") from None


def lay_out(program: Program, folder: Path, sources: Path) -> Path:
    """The program, edited, in an empty folder; returns its file."""
    shutil.rmtree(folder, ignore_errors=True)
    if program.public:
        home = sources / program.source.partition("@")[0].replace("/", "+")
        if not home.is_dir():
            raise BadProgram(f"{program.name}: no checkout of {program.source} at {home.name}")
        root = home / program.root if program.root else (home / program.path).parent
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(".git", "__pycache__", "docs", "*.png", "*.gif", "*.mp4"))
    else:
        folder.mkdir(parents=True)
        shutil.copy(HERE / "drivers" / program.path, folder)
    main = folder / program.main
    for file in (main, *(folder / a for a in program.also)):
        file.write_text(edited(file.read_text(encoding="utf-8"), program), encoding="utf-8")
    main.write_text(_begun(main.read_text(encoding="utf-8")), encoding="utf-8")
    for each in program.data:
        from clinic.wild import makers

        makers.make(each, folder)
    return main


def edited(text: str, program: Program) -> str:
    """The smallest edits: numbers set by name, names spelled otherwise."""
    for name, value in program.set.items():
        text = re.sub(rf"(\b{re.escape(name)}\b\s*=\s*){_NUMBER}(?!\w)", lambda m, v=value: f"{m[1]}{v}", text)
        text = re.sub(
            rf"(add_argument\(\s*(?:['\"][-\w]+['\"],\s*)*['\"]--?{re.escape(name)}['\"][^)]*?default\s*=\s*){_NUMBER}",
            lambda m, v=value: f"{m[1]}{v}",
            text,
        )
    for old, new in program.swap:
        text = text.replace(old, new)
    return text


def _begun(text: str) -> str:
    """The program with the harness's import as its first statement, on a line that is there already."""
    lines = text.splitlines(keepends=True)
    import ast

    tree = ast.parse(text)
    first = [
        n
        for n in tree.body
        if not (isinstance(n, ast.ImportFrom) and n.module == "__future__")
        and not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
    ][0]
    at = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))]) - 1
    lines[at] = "import wild_ward; " + lines[at] if not isinstance(first, _BLOCKS) else "import wild_ward\n" + lines[at]
    return "".join(lines)


def _blocks() -> tuple[type, ...]:
    import ast

    return (ast.FunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.With, ast.Try, ast.AsyncFunctionDef)


_BLOCKS = _blocks()


def choose(wanted: Sequence[Program], only: str = "*", sample: int | None = None) -> list[Program]:
    """The programs asked for by name or kind; a sample takes every kind in turn, always the same ones."""
    import fnmatch

    found = [p for p in wanted if fnmatch.fnmatch(p.name, only) or fnmatch.fnmatch(p.kind, only)]
    if sample is None or sample >= len(found):
        return found
    kinds: dict[str, list[Program]] = {}
    for p in sorted(found, key=lambda p: hashlib.sha256(p.name.encode()).hexdigest()):
        kinds.setdefault(p.kind, []).append(p)
    order = sorted(((n, k, p) for k, pile in kinds.items() for n, p in enumerate(pile)), key=lambda t: t[:2])
    return sorted((p for _, _, p in order[:sample]), key=lambda p: p.name)
