"""The diagnosis as SARIF 2.1.0, for code-scanning pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from traindx import __version__
from traindx.diagnosis import Diagnosis
from traindx.diagnosis.gate import Gate
from traindx.finding import Finding, Severity
from traindx.report.github import place
from traindx.report.json import plain
from traindx.report.words import safe
from traindx.rule import catalogue

LEVEL = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """One SARIF run per training run."""
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [_run(d) for d in diagnoses],
    }
    return json.dumps(document, indent=2, allow_nan=False)


def _run(d: Diagnosis) -> dict[str, Any]:
    codes = sorted({f.code for f in d.findings})
    rules = [
        {
            "id": code,
            "name": catalogue()[code].name,
            "shortDescription": {"text": catalogue()[code].summary},
            "defaultConfiguration": {"level": LEVEL[catalogue()[code].severity]},
        }
        for code in codes
    ]
    return {
        "tool": {
            "driver": {
                "name": "traindx",
                "version": __version__,
                "rules": rules,
            }
        },
        "automationDetails": {"id": f"traindx/{safe(d.run.source or 'run')}"},
        "results": [*(_result(f, codes, d) for f in d.findings), *(_gate(g) for g in d.gates if g.result != "passed")],
        "properties": {"verdict": d.verdict, "summary": safe(d.summary)},
    }


def _gate(g: Gate) -> dict[str, Any]:
    said = {"text": safe(f"{g.requirement}: {g.message}")}
    return {"ruleId": "requirement", "level": "error", "message": said, "properties": plain(asdict(g))}


def _result(f: Finding, codes: list[str], d: Diagnosis) -> dict[str, Any]:
    at = place(f)
    file, line = at if at else (d.run.source or "run", 1)
    uri = quote(PurePath(safe(file)).as_posix())
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(line, 1)}}}
    logical = [{"name": safe(w), "kind": "member"} for w in f.where if w != f"{file}:{line}"]
    if logical:
        location["logicalLocations"] = logical
    return {
        "ruleId": f.code,
        "ruleIndex": codes.index(f.code),
        "level": LEVEL[f.severity],
        **({"baselineState": "unchanged" if f.code in d.known else "new"} if d.known else {}),
        "message": {"text": safe(f.message) + (f"\n{safe(f.fix)}" if f.fix else "")},
        "locations": [location],
        "properties": {"confidence": f.confidence.value, "steps": list(f.steps) if f.steps else None, "facts": plain(f.facts)},
    }
