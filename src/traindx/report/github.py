"""The diagnosis as GitHub workflow annotations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from traindx.diagnosis import Diagnosis
from traindx.finding import Finding, Severity
from traindx.report.words import safe

LEVEL = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_PLACE = re.compile(r"^(?P<file>[^:\n]+\.py):(?P<line>\d+)$")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def place(f: Finding) -> tuple[str, int] | None:
    """The source line a finding points at, where it has one."""
    for where in f.where:
        match = _PLACE.match(where)
        if match:
            return match["file"], int(match["line"])
    return None


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """One annotation per gate that does not pass, and per finding that the baseline does not have."""
    gates = [
        f"::error title=requirement {_property(safe(g.requirement))}::{_data(safe(f'{g.result}: {g.message}'))}"
        for d in diagnoses
        for g in d.gates
        if g.result != "passed"
    ]
    return "\n".join([*gates, *(_line(f) for d in diagnoses for f in d.fresh)])


def _line(f: Finding) -> str:
    properties = [f"title={_property(f'{f.code} {f.name}')}"]
    at = place(f)
    if at:
        properties[:0] = [f"file={_property(at[0])}", f"line={at[1]}"]
    text = safe(f.message) + (f" Fix: {safe(f.fix)}" if f.fix else "")
    return f"::{LEVEL[f.severity]} {','.join(properties)}::{_data(text)}"
