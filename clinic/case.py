"""A case: one training program, what is wrong with it, and what a right diagnosis would say.

The program is `<name>.py`, written as people write training code; the truth is `<name>.toml` beside it.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORK = HERE / "work"  # git-ignored: generated programs, records, interrupted scores
VERDICTS = ("healthy", "wait", "stop-keep-best", "fix-and-resume", "fix-evaluation", "restart", "cannot-tell")
SICK, HEALTHY = "sick", "healthy"


@dataclass(frozen=True)
class Case:
    """A program and its truth. `kind` is sick or healthy; `group` says where it comes from."""

    name: str
    path: Path
    kind: str
    group: str  # sick, healthy, eleven_pm, generated, control, below, healed
    fault: str = ""  # what is wrong, in a sentence; for healthy cases what looks wrong and is not
    condition: str = ""  # the code of the condition it counts for
    codes: tuple[str, ...] = ()  # a finding with any of these codes is an accepted diagnosis
    causes: tuple[str, ...] = ()  # accepted as top cause
    verdicts: tuple[str, ...] = ()  # accepted as verdict of a passive look
    investigated: tuple[str, ...] = ()  # accepted as verdict once trials may be run
    least: str = "warning"  # an accepted finding is at least this severe
    quiet: tuple[str, ...] = ()  # codes that must not be found (below-threshold cases)
    line: str = ""  # text of the guilty line
    layer: str = ""
    from_step: int = 0
    trial: str = ""  # the trial that would settle it, where watching alone cannot
    exit_code: int = 0
    covers: tuple[str, ...] = ()  # rows of the sources this case stands for
    healed: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    base: str = ""  # generated cases: the base program
    operator: str = ""
    level: str = ""
    seed: int = 0

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def key(self) -> str:
        """Content hash of the program: the same text is the same case."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def guilty_line(self) -> int | None:
        """Line number of the guilty line, 1-based."""
        if not self.line:
            return None
        at = self.text.find(self.line)
        return None if at < 0 else self.text.count("\n", 0, at) + 1


class BadCase(ValueError):
    """The truth beside a program does not fit the program."""


_LISTS = ("codes", "causes", "verdicts", "investigated", "quiet", "covers")
_KEYS = {"fault", "condition", *_LISTS, "least", "line", "layer", "from_step", "trial", "exit_code", "healed"}


def read_case(path: Path) -> Case:
    """The case of the program at `path`; its truth is the .toml of the same name."""
    table = tomllib.loads(path.with_suffix(".toml").read_text(encoding="utf-8"))
    unknown = set(table) - _KEYS
    if unknown:
        raise BadCase(f"{path.stem}: unknown field {sorted(unknown)[0]}")
    values: dict[str, Any] = {k: tuple(v) if k in _LISTS else v for k, v in table.items()}
    values["healed"] = tuple((old, new) for old, new in table.get("healed", ()))
    group = path.parent.name
    truly = HEALTHY if group == "healthy" or values.get("verdicts") in (("wait",), ("healthy",)) else SICK
    return Case(name=path.stem, path=path, kind=truly, group=group, **values)


def written(group: str | None = None) -> Iterator[Case]:
    """The cases written by hand, by name; `group` is sick, healthy or eleven_pm."""
    for folder in (group,) if group else ("sick", "healthy", "eleven_pm"):
        for path in sorted((HERE / "cases" / folder).glob("*.py")):
            yield read_case(path)


def heal(case: Case) -> str:
    """The program's text with its fault mended."""
    text = case.text
    if not case.healed:
        raise BadCase(f"{case.name}: has no healed twin")
    for old, new in case.healed:
        if text.count(old) != 1:
            raise BadCase(f"{case.name}: the healing patch must fit once, it fits {text.count(old)} times: {old!r}")
        text = text.replace(old, new)
    return text
