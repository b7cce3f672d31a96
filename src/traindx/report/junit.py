"""The diagnosis as JUnit XML: a test suite per run, a test case per condition."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from traindx.diagnosis import Diagnosis
from traindx.finding import Severity, Status
from traindx.report.words import safe
from traindx.rule import catalogue


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """Conditions found at warning or above fail, blind and muted ones are skipped, broken ones are errors."""
    root = ET.Element("testsuites", name="traindx")
    for d in diagnoses:
        _suite(root, d)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode")


def _suite(root: ET.Element, d: Diagnosis) -> None:
    suite = ET.SubElement(root, "testsuite", name=safe(d.run.source or "run"))
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for o in d.outcomes:
        name = catalogue()[o.code].name if o.code in catalogue() else o.code
        case = ET.SubElement(suite, "testcase", classname=f"traindx.{o.code[:4]}", name=f"{o.code} {name}", time="0")
        loud = [f for f in o.findings if f.severity > Severity.INFO and f.code not in d.known]
        if loud:
            counts["failures"] += 1
            said = "\n".join(safe(f.message) for f in loud)
            ET.SubElement(case, "failure", type=loud[0].severity.value, message=safe(loud[0].message)).text = said
        elif o.findings:
            ET.SubElement(case, "system-out").text = "\n".join(safe(f.message) for f in o.findings)
        elif o.status in (Status.BLIND, Status.MUTED, Status.UNSURE):
            counts["skipped"] += 1
            ET.SubElement(case, "skipped", message=f"{o.status.value}: {safe(o.reason)}")
        elif o.status is Status.BROKEN:
            counts["errors"] += 1
            ET.SubElement(case, "error", message="the rule broke").text = safe(o.reason, 10_000, lines=True)
    for g in d.gates:
        case = ET.SubElement(suite, "testcase", classname="traindx.gate", name=safe(g.requirement), time="0")
        if g.result != "passed":
            counts["failures" if g.result == "failed" else "errors"] += 1
            ET.SubElement(case, "failure" if g.result == "failed" else "error", type=g.result, message=safe(g.message))
    suite.set("tests", str(len(d.outcomes) + len(d.gates)))
    for key, n in counts.items():
        suite.set(key, str(n))
