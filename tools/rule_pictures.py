"""The pictures of the rule pages: what a condition looks like in a real run of the clinic, sick against healed.

`python -m tools.rule_pictures [CODE …]` takes, per condition, the clinic's run that shows it best, draws the signals that the
finding names beside those of the healed twin, and marks the step from which it was found. Kept records are used; what is
missing is run once, or passed over with `--kept`. Pictures and `index.json` (which run, what was said) go to
docs/rules/pictures/; the pages are made of them without any training.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from traindx.finding import Finding, Severity
from traindx.report import thinning
from traindx.rule import Rule, catalogue
from traindx.run import Matrix, Run, Series

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "rules" / "pictures"
INDEX = OUT / "index.json"
WIDTH, PANEL, TOP, BOTTOM, LEFT, RIGHT = 720, 190, 34, 24, 54, 14
POINTS = 110
KEPT = "--kept"
TRIED = 6  # runs that are looked at before a condition goes without a picture
# Why a page has no picture: what is shown beneath it instead. A test holds every condition to a picture or a reason.
_RANKS = "it takes several processes, and the clinic's runs have one; the programs of the distributed tests show it"
_DEVICE = "it is read off an accelerator, and the clinic runs on a processor"
UNSHOWN = {
    **{f"DIST00{i}": _RANKS for i in range(1, 8)},
    "ACTV002": "it creeps up over far longer runs than the clinic has",
    "EVAL010": "it takes a hundred readings of the accuracy, which only a log of every step has",
    "GRAD005": "it is known from the trial `noise-scale`, not from watching",
    "LOSS013": "it is the judgement about the whole run; docs/figures.md shows how it compares with the truth",
    "NUMR010": "the program ends with the error, at the first backward: there is no curve",
    "OPTM007": "it takes spikes that come again, which none of the clinic's runs has",
    "OPTM012": "it is known from the trial `sharpness`, not from watching",
    "PERF003": _DEVICE,
    "PERF004": _DEVICE,
    "PERF005": "it is read off a profiler's window (`--profiler`), not off the record",
    "PERF006": "it takes a compiled model, and the clinic's are not",
    "PERF010": "it is read off a profiler's window (`--profiler`), not off the record",
    "REPR004": "it compares two runs (`traindx compare`)",
    "TUNE006": "the clinic's fine-tuning is too short for it; its run `finetune_too_hot` shows as LOSS008",
    "SPEC006": "it reads the spread of embeddings, which a script has to report; the clinic's runs show ACTV009",
    "SPEC007": "it reads the loss by noise level, which a script has to report",
}
# The same colours as the report, on a ground of its own: readable wherever it stands.
STYLE = (
    "svg{--ground:#fbfaf8;--ink:#1d2126;--soft:#5b6470;--line:#dfe3e8;--sick:#b3261e;--tint:#fbe9e7;--well:#2f6f8f}"
    "@media(prefers-color-scheme:dark){svg{--ground:#1c2024;--ink:#e6e9ec;--soft:#9fa9b4;--line:#31383f;--sick:#ff8a80;"
    "--tint:#3a1f1d;--well:#7fb8d1}}"
    "text{font:12px system-ui,sans-serif;fill:var(--soft)}.t{fill:var(--ink);font-weight:600}.g{fill:var(--ground)}"
    ".a{stroke:var(--line);fill:none}.b{fill:var(--tint)}.f{stroke:var(--sick);stroke-dasharray:2 3;fill:none}"
    ".s{stroke:var(--sick);fill:none;stroke-width:1.7}.h{stroke:var(--well);fill:none;stroke-width:1.7;stroke-dasharray:6 3}"
    ".r{stroke-width:1;stroke-dasharray:none;opacity:.35}.s,.h{stroke-linejoin:round}.ds{fill:var(--sick)}.dh{fill:var(--well)}"
    ".o{paint-order:stroke;stroke:var(--ground);stroke-width:3px}"
)


@dataclass(frozen=True)
class Shown:
    """A condition in a run: the finding, the run and its healed twin."""

    case: Any
    finding: Finding
    sick: Run
    healed: Run | None


# -- which run shows a condition


def candidates(code: str) -> Iterator[Any]:
    """Cases in which the condition was found when the clinic was scored: those made for it, then the loudest others."""
    by_name, made, lines = _clinic()
    found = [x for x in lines if code in x.get("found", {}) and x["kind"] == "sick" and x["name"] in by_name]
    order = ("critical", "warning", "info")

    def likeness(x: dict[str, Any]) -> tuple[Any, ...]:
        loud = order.index(x["found"][code])
        return x["condition"] != code, x["group"] == "generated", loud, len(x["found"]), x["name"]

    found.sort(key=likeness)
    own = [x for x in found if x["condition"] == code]
    yield from (by_name[x["name"]] for x in own)
    yield from (
        c
        for c in by_name.values()
        if c.condition == code and c.kind == "sick" and not c.operator and c.name not in {x["name"] for x in own}
    )
    yield from sorted(
        (c for c in made if c.group == "generated" and c.condition == code), key=lambda c: (c.level != "severe", c.seed)
    )
    yield from (by_name[x["name"]] for x in found if x["condition"] != code)


@cache
def _clinic() -> tuple[dict[str, Any], list[Any], list[dict[str, Any]]]:
    """Cases by name, the generated ones, and the lines of the committed scores."""
    from clinic.case import written
    from clinic.generate import generated

    scores = [ROOT / "clinic" / "results" / f"{name}.json" for name in ("written", "generated")]
    lines = [line for path in scores for line in json.loads(path.read_text(encoding="utf-8"))["cases"]]
    made = list(generated())
    return {c.name: c for c in (*written(), *made)}, made, lines


@cache
def _record(case: Any) -> Run | None:
    from clinic.patient import record_dir, watch

    from traindx.record import read

    home = record_dir(case, any_observer=True)
    if not (home / "record").exists() and KEPT not in sys.argv:
        watch(case, forked=True)
        home = record_dir(case)
    return read(home / "record") if (home / "record").exists() else None


def _twin(case: Any) -> Any:
    """The same program without its fault."""
    from clinic.score import twin

    if case.healed:
        return twin(case)
    controls = [c for c in _clinic()[1] if c.group == "control" and c.base == case.base]
    return next((c for c in controls if c.seed == case.seed), controls[0] if controls else None)


def shown(rule: Rule) -> Shown | None:
    """The first candidate in which the rule, as it is now, finds its condition."""
    tried = 0
    for case in candidates(rule.code):
        run = _record(case)
        tried += run is not None
        if tried > TRIED:
            break
        findings = [] if run is None else list(rule.outcome(run).findings)
        if run is not None and findings:
            healed = _twin(case)
            worst = max(findings, key=lambda f: (f.severity, f.steps is not None))
            what = Shown(case, worst, run, _record(healed) if healed is not None else None)
            if drawn_signals(rule, what):  # a run that ends at its first batch has no curves
                return what
    return None


# -- what of it is drawn


def drawn_signals(rule: Rule, what: Shown) -> list[str]:
    """At most two signals that show something: those the finding names, else those the rule needs; then the losses."""
    named = [n for n in what.finding.signals if _tells(what, n)]
    needed = [n for need in rule.needs for part in need.split("|") for n in what.sick.matching(part.strip()) if _tells(what, n)]
    losses = [n for n in ("loss/train", "loss/val") if _tells(what, n)]
    return list(dict.fromkeys([*(named or needed[:2]), *losses]))[:2]


def _tells(what: Shown, name: str) -> bool:
    """Whether there is a curve, and more in it than one level that the healed run has, too."""
    sick, healed = (_curve(run, name, what.finding) for run in (what.sick, what.healed))
    if sick is None or len(sick) < 2:
        return False
    levels = {float(v) for c in (sick, healed) if c is not None for v in (np.nanmin(c.values), np.nanmax(c.values))}
    return len(levels) > 1 or not np.isfinite(sick.values).all()


def _column(signal: Matrix, f: Finding) -> str:
    return next((w for w in f.where if w in signal.names), "")


def _curve(run: Run | None, name: str, f: Finding) -> Series | None:
    """The series to draw: of a table the column the finding names, else the median of all."""
    signal = run.signals.get(name) if run is not None else None
    if isinstance(signal, Matrix):
        column = _column(signal, f)
        if column:
            signal = signal.column(column)
        else:
            seen = np.isfinite(signal.values).any(axis=1)
            if not seen.any():
                return None
            signal = Series(signal.steps[seen], np.nanmedian(signal.values[seen], axis=1))
    if signal is None or not len(signal) or not np.isfinite(signal.values).any():
        return None
    return signal


def title(name: str, what: Shown) -> str:
    signal = what.sick[name]
    if not isinstance(signal, Matrix):
        return name
    column = _column(signal, what.finding)
    return f"{name}: {column}" if column else f"{name}: median of {len(signal.names)}"


# -- drawing


def picture(rule: Rule, what: Shown) -> str:
    """The whole picture as SVG."""
    names = drawn_signals(rule, what)
    height = TOP + PANEL + BOTTOM
    width = WIDTH / len(names)
    body = []
    for i, name in enumerate(names):
        curves = [_curve(run, name, what.finding) for run in (what.sick, what.healed)]
        body.append(_panel(title(name, what), curves, what.finding, i * width, width, i == len(names) - 1))
    told = alt(rule, what, names)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"><title>{escape(told)}</title>'
        f'<style>{STYLE}</style><rect class="g" width="{WIDTH}" height="{height}" rx="6"/>{"".join(body)}</svg>\n'
    )


def alt(rule: Rule, what: Shown, names: Sequence[str]) -> str:
    where = f", found from step {what.finding.steps[0]}" if what.finding.steps else ""
    against = "against its healed twin" if what.healed is not None else "on its own"
    return f"{' and '.join(names)} of the clinic run {what.case.name} {against}{where}"


def _panel(name: str, curves: list[Series | None], f: Finding, x0: float, width: float, last_panel: bool) -> str:
    lines = [(c, kind) for c, kind in zip(curves, "sh", strict=True) if c is not None]
    good = np.concatenate([c.values[np.isfinite(c.values)] for c, _ in lines])
    log = bool(good.min() > 0 and good.max() / good.min() > 30)
    low, high = (math.log10(good.min()), math.log10(good.max())) if log else (float(good.min()), float(good.max()))
    if high - low < 1e-9 * max(abs(high), abs(low), 1e-300):
        low, high = low - (abs(low) or 1.0) / 10, high + (abs(high) or 1.0) / 10
    first, last = min(int(c.steps[0]) for c, _ in lines), max(int(c.steps[-1]) for c, _ in lines)
    left, right = x0 + LEFT, x0 + width - RIGHT

    def x(step: float) -> float:
        return left + (right - left) * (step - first) / max(last - first, 1)

    def y(value: float) -> float:
        level = math.log10(max(value, 1e-300)) if log else value
        return TOP + PANEL - 6 - (PANEL - 26) * (level - low) / (high - low)

    out, label = [], []
    if f.steps and first <= f.steps[0] <= last:
        begin, end = x(f.steps[0]), x(min(f.steps[1], last))
        out.append(f'<rect class="b" x="{begin:.0f}" y="{TOP}" width="{max(end - begin, 2):.0f}" height="{PANEL}"/>')
        out.append(f'<path class="f" d="M{begin:.0f} {TOP}v{PANEL}"/>')
        anchor, at = ("end", begin - 5) if begin > (left + right) / 2 else ("start", begin + 5)
        label.append(f'<text class="o" x="{at:.0f}" y="{TOP + 13}" text-anchor="{anchor}">found: step {f.steps[0]}</text>')
    out.append(f'<path class="a" d="M{left:.0f} {TOP}v{PANEL}h{right - left:.0f}"/>')
    out += [_line(c, kind, x, y) for c, kind in reversed(lines)]
    room = int((width - LEFT - (150 if last_panel else 20)) / 7) - (6 if log else 0)
    short = name if len(name) <= room else f"{name[: room // 2]}…{name[-(room - room // 2 - 1) :]}"
    legend = '<tspan class="ds">— sick</tspan>' + ('<tspan class="dh" dx="8">- - healed</tspan>' if len(lines) > 1 else "")
    out += [
        f'<text class="t" x="{left:.0f}" y="20">{escape(short)}{" (log)" if log else ""}</text>',
        f'<text x="{right:.0f}" y="20" text-anchor="end">{legend}</text>' if last_panel else "",
        *label,
        f'<text x="{left - 5:.0f}" y="{TOP + 24}" text-anchor="end">{_number(10**high if log else high)}</text>',
        f'<text x="{left - 5:.0f}" y="{TOP + PANEL - 4}" text-anchor="end">{_number(10**low if log else low)}</text>',
        f'<text x="{left:.0f}" y="{TOP + PANEL + 17}">{first}</text>',
        f'<text x="{right:.0f}" y="{TOP + PANEL + 17}" text-anchor="end">step {last}</text>',
    ]
    return "".join(out)


def _line(curve: Series, kind: str, x: Any, y: Any) -> str:
    """A path; a single record is a dot, and where values are no numbers any more stands a cross."""
    steps, values = thinning.thin(curve.steps, curve.values, POINTS)
    sound = np.isfinite(curve.values)
    if len(curve) >= 80 and sound.all():  # the way a noisy curve goes, over the noise
        middle = thinning.smooth(curve.values, len(curve) // 20 | 1)
        at = np.unique(np.linspace(0, len(curve) - 1, 60).astype(int))
        out = _path(f"{kind} r", steps, values, x, y) + _path(kind, curve.steps[at], middle[at], x, y)
    else:
        out = _path(kind, steps, values, x, y)
    if sound.sum() <= 3:
        out += "".join(
            f'<circle class="d{kind}" cx="{x(s):.1f}" cy="{y(v):.1f}" r="3"/>'
            for s, v in zip(steps, values, strict=True)
            if math.isfinite(v)
        )
    if not sound[-1] and sound.any():
        at = int(np.flatnonzero(sound)[-1])
        out += f'<text class="o d{kind}" x="{x(curve.steps[at]) + 4:.0f}" y="{y(curve.values[at]) + 4:.0f}">× no number</text>'
    return out


def _path(kind: str, steps: Any, values: Any, x: Any, y: Any) -> str:
    """Line pieces through what is finite."""
    parts: list[str] = []
    pen = "M"
    for step, value in zip(steps.tolist(), values.tolist(), strict=True):
        if math.isfinite(value):
            parts.append(f"{pen}{x(step):.1f} {y(value):.1f}")
            pen = "L"
        else:
            pen = "M"
    return f'<path class="{kind}" d="{"".join(parts)}"/>'


def _number(value: float) -> str:
    text = f"{value:.0e}" if 0 < abs(value) < 1e-3 else f"{value:.1e}" if 0 < abs(value) < 1e-2 else f"{value:.3g}"
    if abs(value) >= 1e4:
        text = f"{value:.1e}"
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


# -- all of them


def entry(rule: Rule, what: Shown) -> dict[str, Any]:
    """What the page says beneath the picture."""
    return {
        "case": what.case.name,
        "fault": what.case.fault,
        "severity": what.finding.severity.value,
        "step": what.finding.steps[0] if what.finding.steps else None,
        "said": what.finding.message,
        "alt": alt(rule, what, drawn_signals(rule, what)),
    }


def main(codes: Sequence[str]) -> None:
    """Draw the pictures of these conditions, or of all."""
    OUT.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = json.loads(INDEX.read_text(encoding="utf-8")) if INDEX.exists() else {}
    for rule in catalogue().values():
        if codes and rule.code not in codes:
            continue
        what = shown(rule)
        path = OUT / f"{rule.code.lower()}.svg"
        if what is None and KEPT in sys.argv and path.exists():
            continue
        if what is None:
            index.pop(rule.code, None)
            path.unlink(missing_ok=True)
            print(f"{rule.code}: no run shows it", flush=True)
            continue
        path.write_text(picture(rule, what), encoding="utf-8")
        index[rule.code] = entry(rule, what)
        note = "" if what.finding.severity > Severity.INFO else " (info)"
        print(f"{rule.code}: {what.case.name}{note}, {path.stat().st_size / 1024:.1f} KB", flush=True)
        INDEX.write_text(json.dumps(index, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main([c.upper() for c in sys.argv[1:] if c != KEPT])
