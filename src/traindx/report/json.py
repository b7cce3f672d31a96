"""The JSON contract `traindx.report/1`; the schema is shipped next to it and tested."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from traindx import __version__
from traindx.diagnosis import Diagnosis, Suspect
from traindx.finding import Finding, Outcome, Status
from traindx.record.sources import place_of
from traindx.report.issues import next_command

SCHEMA = Path(__file__).with_name("report-1.schema.json")


def plain(value: Any) -> Any:
    """Any value as JSON can carry it: numbers that are not finite become "nan", "inf" and "-inf"."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | Sequence | set | frozenset):
        return [plain(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return str(value)


def report(diagnosis: Diagnosis) -> dict[str, Any]:
    """One run's report as a dict that follows the contract."""
    run, verdict = diagnosis.run, diagnosis.verdict_
    return {
        "schema": "traindx.report/1",
        "version": __version__,
        "run": {
            "source": run.source,
            "kind": run.kind,
            "steps": list(run.steps) if run.steps else None,
            "signals": sorted(run.signals),
            "notes": list(run.notes),
            "columns": plain(run.fact("columns", {})),
            "unmapped": plain(run.fact("unmapped", [])),
            "command": plain(run.fact("argv")),
            "folder": plain(run.fact("folder")),
            "commit": plain(run.fact("git.commit")),
            "versions": plain(run.fact("versions")),
        },
        "diagnosis": {
            "verdict": verdict.name,
            "summary": verdict.summary,
            "headline": verdict.headline or verdict.summary,
            "why": verdict.why,
            "learned": {
                "state": str(diagnosis.learned.state),
                "low": round(diagnosis.learned.low, 4),
                "high": round(diagnosis.learned.high, 4),
                "reasons": list(diagnosis.learned.reasons),
            },
            "causes": [_cause(c) for c in diagnosis.causes],
            "resume_from": verdict.resume_from,
            "forecast": plain(verdict.forecast),
            "needs": list(verdict.needs),
            "would_change": verdict.would_change,
            "start": verdict.start,
            "waiting": verdict.waiting,
            "besides": verdict.besides,
            "next": next_command(diagnosis),
            "ended": verdict.ended,
        },
        "gates": [plain(asdict(g)) for g in diagnosis.gates],
        "known": sorted(diagnosis.known),
        "findings": [_finding(f, run.fact("code.source", {})) for f in diagnosis.findings],
        "outcomes": {
            "clear": [o.code for o in diagnosis.with_status(Status.CLEAR)],
            "unsure": [_unsure(o) for o in diagnosis.with_status(Status.UNSURE)],
            "blind": [
                {"code": o.code, "lacks": ", ".join(o.lacks), "reason": o.reason} for o in diagnosis.with_status(Status.BLIND)
            ],
            "muted": [{"code": o.code, "reason": o.reason} for o in diagnosis.with_status(Status.MUTED)],
            "broken": [{"code": o.code, "reason": o.reason} for o in diagnosis.with_status(Status.BROKEN)],
        },
    }


def render(diagnoses: Sequence[Diagnosis], sweep: Mapping[str, Any] | None = None) -> str:
    """One report, or several as `traindx.reports/1`, as text."""
    if len(diagnoses) == 1:
        return json.dumps(report(diagnoses[0]), indent=2, ensure_ascii=False, allow_nan=False)
    return documents([report(d) for d in diagnoses], sweep)


def documents(reports: Sequence[Mapping[str, Any]], sweep: Mapping[str, Any] | None = None) -> str:
    """Several reports as `traindx.reports/1`."""
    document = {"schema": "traindx.reports/1", "reports": reports, **({"sweep": sweep} if sweep else {})}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def _cause(s: Suspect) -> dict[str, Any]:
    return {
        "cause": s.cause.name,
        "title": s.cause.title,
        "probability": round(s.probability, 4),
        "words": s.words,
        "calibrated": s.earned,
        "for": list(s.supports),
        "against": list(s.against),
        "next_test": s.cause.settle or None,
        "prescription": s.prescription,
        "not_yet": list(s.cause.not_yet),
        "apart": s.apart,
    }


def _finding(f: Finding, sources: Mapping[str, str]) -> dict[str, Any]:
    places = [(where, at) for where in f.where if (at := place_of(where)) is not None]
    return {
        "code": f.code,
        "name": f.name,
        "severity": f.severity.value,
        "confidence": f.confidence.value,
        "message": f.message,
        "where": list(f.where),
        "sites": [{"file": file, "line": line, "source": sources.get(where)} for where, (file, line) in places],
        "steps": list(f.steps) if f.steps else None,
        "rank": f.rank,
        "facts": plain(f.facts),
        "signals": list(f.signals),
        "fix": f.fix,
        "docs": f"traindx explain {f.code}",
    }


def _unsure(o: Outcome) -> dict[str, Any]:
    return {"code": o.code, "resolution": plain(o.resolution), "needs_steps": o.needs_steps, "reason": o.reason}
