"""Who knows whom: no import goes round in a circle, and nobody reaches into what another file keeps to itself."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import traindx

SOURCE = Path(traindx.__file__).parent
MODULES = {
    ".".join(("traindx", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in SOURCE.rglob("*.py")
}
LIBRARIES = {"_version", "_sequence_nr", "_getframe"}  # private names of torch and python that have no public ones


def imports(name: str) -> set[str]:
    """Modules of ours that a module imports, wherever it does so, for checking types or not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {whole if whole in MODULES else node.module for whole in inner.values()}
    return found & MODULES.keys() - {name, "traindx"}


def test_no_import_goes_round_in_a_circle() -> None:
    try:
        TopologicalSorter({name: imports(name) for name in MODULES}).prepare()
    except CycleError as circle:
        pytest.fail(" → ".join(circle.args[1]))


def reaches(file: Path) -> list[str]:
    """Private names that a file asks of others and does not have itself."""
    tree = ast.parse(file.read_text())
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")]
    own = {node.attr for node in asked if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)} | LIBRARIES
    others = [node for node in asked if not node.attr.startswith("__") and node.attr not in own]
    return [text for node in others if not (text := ast.unparse(node)).startswith("torch.")]


@pytest.mark.parametrize("file", [f for part in ("follow", "drive") for f in sorted((SOURCE / "probes" / part).glob("*.py"))])
def test_nobody_reaches_into_what_another_file_keeps_to_itself(file: Path) -> None:
    assert reaches(file) == []
