"""For test suites: `assert_healthy(run)` and `assert_trainable(task)`."""

from __future__ import annotations

from typing import Any

from traindx import api
from traindx.diagnosis import Diagnosis
from traindx.finding import Confidence, Severity


def assert_healthy(source: Any, *, least: str = "warning", ignore: tuple[str, ...] = ()) -> Diagnosis:
    """Fail with the diagnosis page when the run in `source` has a finding of severity `least` or worse."""
    diagnosis = source if isinstance(source, Diagnosis) else api.diagnose(source)
    loud = [
        f
        for f in diagnosis.findings
        if f.severity >= Severity(least)
        and f.confidence is not Confidence.SUGGESTIVE
        and not f.code.startswith(ignore or ("-",))
    ]
    if loud:
        raise AssertionError(f"{loud[0].code} {loud[0].name}: {loud[0].message}\n\n{diagnosis}")
    return diagnosis


def assert_trainable(task: Any, **options: Any) -> Any:
    """Fail with the list of failed items when the pre-flight on `task` does not pass."""
    result = api.check(task, **options)
    failed = [item for item in result.items if item.result == "fail"]
    if failed:
        raise AssertionError("\n".join(f"{item.item}: {item.message} {item.fix}" for item in failed))
    return result
