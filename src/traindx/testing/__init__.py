"""For test suites: `assert_healthy(run)` and `assert_trainable(task)`; with pytest also as fixtures of the same names.

    def test_the_model_trains(traindx_watch, assert_healthy):
        dx = traindx_watch(model, optimizer)
        train(model, optimizer, steps=200)
        assert_healthy(dx, ignore=("PERF",))

Nothing heavy is imported before one of them is called: pytest loads this package in every session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traindx.diagnosis import Diagnosis


def assert_healthy(
    source: Any,
    *,
    least: str = "warning",
    ignore: tuple[str, ...] = (),
    require: str | tuple[str, ...] = (),
    baseline: Any = None,
) -> Diagnosis:
    """Fail with the diagnosis page when the run in `source` has a finding of severity `least` or worse, or must be restarted.

    `source` is a watch, a callback, a record or log on disk, a dict of lists, a Run or a Diagnosis. Suggestive findings never
    fail a test. `ignore` has codes or families. `require` has lines such as "val_acc >= 0.93" or "time/step <= 1.2 * baseline":
    one that fails, or that cannot be evaluated, fails the test. `baseline` is a run, or several.

    >>> diagnosis = assert_healthy({"loss/train": [2.0 / (1 + i / 50) for i in range(300)]})
    >>> len(diagnosis.run.series("loss/train"))
    300
    """
    from traindx import api
    from traindx.diagnosis import Diagnosis, gates
    from traindx.finding import Confidence, Severity

    diagnosis = source if isinstance(source, Diagnosis) else api.diagnose(_run(source))
    loud = [
        f
        for f in diagnosis.findings
        if f.severity >= Severity(least)
        and f.confidence is not Confidence.SUGGESTIVE
        and not f.code.startswith(tuple(ignore) or ("-",))
    ]
    if loud:
        raise AssertionError(f"{loud[0].code} {loud[0].name}: {loud[0].message}\n\n{diagnosis}")
    if (
        diagnosis.verdict == "restart"
        and diagnosis.stories
        and not diagnosis.stories[0].root.code.startswith(tuple(ignore) or ("-",))
    ):
        raise AssertionError(f"the verdict is restart: {diagnosis.summary}\n\n{diagnosis}")
    lines = [gates.parse(text) for text in ([require] if isinstance(require, str) else require)]
    before = [] if baseline is None else api.load(_run(baseline))
    gates.needed(lines, bool(before), new_only=False)
    diagnosis = gates.judged(diagnosis, lines, before) if lines else diagnosis
    if missed := [g for g in diagnosis.gates if g.result != "passed"]:
        raise AssertionError("\n".join(f"{g.requirement}: {g.result}: {g.message}" for g in missed))
    return diagnosis


def _run(source: Any) -> Any:
    """What a watch or callback recorded; anything else is read as it is."""
    watch = getattr(source, "dx", source)
    return watch.run() if hasattr(watch, "run") and hasattr(watch, "diagnosis") else source


def assert_trainable(task: Any, *, level: str = "usual", fresh: bool = False) -> Any:
    """Fail with the list of failed items when the pre-flight on `task` does not pass; `level="quick"` takes seconds."""
    from traindx import api

    result = api.check(task, level=level, fresh=fresh)
    failed = [item for item in result.items if item.result == "fail"]
    if failed:
        raise AssertionError("\n".join(f"{item.item}: {item.message} {item.fix}".rstrip() for item in failed))
    return result
