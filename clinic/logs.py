"""The same runs as plain logs: what is left of diagnosis and calibration when only curves are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from clinic import calibration, figures
from clinic.case import Case
from clinic.judge import judge
from clinic.patient import record_dir
from traindx.run import Run

TOLD = ("adversarial", "rl")  # the columns of such a log tell: two players' losses, a return
LOGGED = ("loss/train", "loss/val", "lr", "accuracy/val", "grad_norm")  # what people log


def as_log(run: Run) -> Run:
    """The curves of a run and nothing else but what their names say."""
    signals = {k: s for k, s in run.signals.items() if k in LOGGED}
    facts = {k: v for k, v in run.facts.items() if k in TOLD}
    return replace(run, signals=signals, facts=facts, events=(), notes=(), kind="csv")


def lines(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Score lines of the cases whose record is kept, read as logs."""
    from traindx.diagnosis import diagnose
    from traindx.record import read
    from traindx.report.json import report

    out = []
    for case in cases:
        home = record_dir(case, any_observer=True) / "record"
        if home.exists() and (run := as_log(read(home))).signals:
            out.append(judge(case, {"report": report(diagnose(run))}))
    return out


def page(scored: list[dict[str, Any]]) -> str:
    """Shares and calibration as Markdown."""
    told = figures.summary(scored)
    rows = [
        f"The written cases once more with nothing but {', '.join(LOGGED)}, as in a log. Most causes lie in wiring, data and "
        "evaluation, where no curve shows them; so for logs causes come with words and no numbers, and the words are a notch lower.",
        "",
        "| figure | share |",
        "|---|---|",
        *(f"| {name} | {told[key]['k']}/{told[key]['n']} |" for name, key in FIGURES),
    ]
    return "\n".join(rows) + "\n" + calibration.page(calibration.summary(scored))


FIGURES = (
    ("first cause accepted", "top1"),
    ("accepted cause among the first three", "top3"),
    ("verdict accepted", "verdict"),
    ("healthy runs with a warning or worse", "warning"),
)
