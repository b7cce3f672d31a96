"""Every command that a page, a document or the JSON prints exists, with the options it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from traindx.cause import TRIALS, catalogue, settling
from traindx.cli import cli
from traindx.cli import verbs as names
from traindx.diagnosis.trees import TREES
from traindx.trial import catalogue as trials

TOP = Path(__file__).parents[1]
# in `code`, in <code>, as a line of a console, or as an f-string in the source
COMMAND = re.compile(r"(?:`|<code[^>]*>|^\s*\$ |Example:  |\"|python -m )traindx ([a-z]+)((?: [^`<\n\"#|&;>]*)?)", re.MULTILINE)
PLACEHOLDERS = {"NAME", "list", "X"}


def texts() -> Iterator[Path]:
    for pattern in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/**/*.md",
        "src/traindx/**/*.py",
        "src/traindx/**/*.js",
        "examples/**/*",
    ):
        yield from (p for p in TOP.glob(pattern) if p.is_file() and p.suffix in (".md", ".py", ".js"))


def printed() -> dict[tuple[str, str], str]:
    """(verb, rest) → where it is printed first."""
    found: dict[tuple[str, str], str] = {}
    for path in texts():
        for match in COMMAND.finditer(path.read_text(encoding="utf-8")):
            if match[0][0] != '"' or match[1] in names():  # a string may also begin a sentence about traindx
                found.setdefault((match[1], match[2].strip()), str(path.relative_to(TOP)))
    return found


def verbs() -> dict[str, click.Command]:
    found = {name: cli.get_command(click.Context(cli), name) for name in names()}
    return {name: command for name, command in found.items() if command is not None}


def test_every_printed_command_exists_with_its_options() -> None:
    known, wrong = verbs(), []
    options = {
        name: {o for p in c.params for o in (*p.opts, *p.secondary_opts)} | {"--help", "-h"} for name, c in known.items()
    }
    for (verb, rest), where in printed().items():
        own = rest.partition(" -- ")[0].split()
        if verb not in known:
            wrong.append(f"{where}: there is no `traindx {verb}`")
            continue
        if verb == "run":  # what follows the script or the command belongs to it
            own = own[: next((i for i, w in enumerate(own) if w.endswith(".py") or w in ("-m", "torchrun")), len(own))]
        flags = [w.partition("=")[0].rstrip(".,;:)") for w in own if re.fullmatch(r"--[a-z][a-z-]*[=.,;:)]?.*", w)]
        wrong += [f"{where}: `traindx {verb}` has no {flag}" for flag in flags if flag not in options[verb]]
        if verb == "trial" and own and re.fullmatch(r"[a-z-]+", own[0]) and own[0] not in {*trials(), *PLACEHOLDERS}:
            wrong.append(f"{where}: there is no trial {own[0]}")
    assert len(printed()) > 60 and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("verb", sorted({verb for verb, _ in printed()}))
def test_every_printed_verb_answers_to_help(verb: str) -> None:
    assert CliRunner().invoke(cli, [verb, "--help"]).exit_code == 0


def test_every_experiment_that_settles_something_exists() -> None:
    named = {c.settle for c in catalogue().values()} | {b.trial for tree in TREES for b in tree.branches} | set(TRIALS)
    assert named - {"", "replay"} <= set(trials())
    assert settling("replay").split()[1] == "replay"
