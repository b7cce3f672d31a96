"""Pictures for README and docs.

`python -m tools.pictures RECORD OUT.svg` is the terminal page of a record; `python -m tools.pictures rules` draws, for the
conditions below, a stored sick run of the clinic against its healed twin (which is run for it), one small SVG each.
"""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from traindx import api
from traindx.diagnosis import diagnose
from traindx.report import text
from traindx.run import Matrix, Run, Series

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "rules" / "pictures"
# condition → stored run that has it, and the signal that shows it best
SHOWN = {
    "WIRE001": ("head_replaced_after_optimizer", "loss/train"),
    "WIRE004": ("zero_grad_missing_mlp", "loss/train"),
    "WIRE005": ("left_in_eval_mode", "loss/train"),
    "WIRE006": ("softmax_before_cross_entropy", "loss/train"),
    "WIRE010": ("step_lr_every_batch", "loss/train"),
    "OPTM001": ("learning_rate_in_the_mud", "update_ratio"),
    "OPTM002": ("adam_lr_half", "loss/train"),
    "OPTM003": ("step_lr_every_batch", "lr"),
    "GRAD001": ("sigmoid_tower", "grad_norm/param"),
    "LOSS007": ("corrupt_rows_every_epoch", "loss/train"),
    "LOSS008": ("overfit_small_sample", "loss/val"),
    "NUMR001": ("log_of_zero_by_hand", "loss/train"),
    "DATA004": ("shuffled_apart", "loss/val"),
    "DATA005": ("sorted_by_class", "loss/train"),
    "EVAL001": ("validates_a_frozen_copy", "loss/val"),
    "WGHT005": ("init_eight_times_too_large", "loss/train"),
}
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 220, 62, 30, 26
SICK, HEALED, INK = "#d1495b", "#2a9d8f", "#808080"


def page(record: str, out: str) -> None:
    """Render the page as SVG; the source is shown by name, so that no folder of anybody's machine is in the picture."""
    [run] = api.load(Path(record))
    run = replace(run, source=Path(run.source).name.rsplit("-", 2)[0])
    console = Console(record=True, width=104, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(text.page(diagnose(run)))
    Path(out).write_text(console.export_svg(title="traindx run train.py"), encoding="utf-8")


def rules() -> None:
    """Draw every picture of the table; healed twins are run in a temporary folder."""
    from clinic import store
    from clinic.case import written
    from clinic.score import twin

    cases = {c.name: c for c in written()}
    healed: dict[str, Run] = {}
    OUT.mkdir(parents=True, exist_ok=True)
    for code, (name, signal) in SHOWN.items():
        sick = store.load(store.RUNS / f"{name}.npz")
        if name not in healed:
            healed[name] = _recorded(twin(cases[name]).path)
        (OUT / f"{code.lower()}.svg").write_text(drawn(signal, sick, healed[name]), encoding="utf-8")
        print(code, name, flush=True)


def _recorded(script: Path) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "traindx", "run", "-q", "--dir", f"{folder}/record", str(script)]
        subprocess.run(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
        [run] = api.load(Path(folder) / "record")
        return run


def drawn(signal: str, sick: Run, healed: Run) -> str:
    """The signal of both runs as a small SVG; logarithmic where it spans more than a factor of thirty."""
    where, lines = "", []
    for run, colour in ((sick, SICK), (healed, HEALED)):
        series = run.signals.get(signal)
        if isinstance(series, Matrix):
            where = where or series.names[0]
            series = series.column(where)
        if isinstance(series, Series) and len(series):
            lines.append((series.steps.astype(float), series.values, colour))
    good = np.concatenate([v[np.isfinite(v)] for _, v, _ in lines])
    log = bool((good > 0).all() and good.max() / good.min() > 30)
    low, high = _scale(good.min(), log), _scale(good.max(), log)
    last = max(float(s[-1]) for s, _, _ in lines) or 1.0
    body = [_line(s, v, colour, (low, high, last), log) for s, v, colour in lines]
    title = f"{signal}{' of ' + where if where else ''}{' (logarithmic)' if log else ''}"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f"<title>{title}: sick against healed</title>",
        f'<text x="{LEFT}" y="18" fill="{INK}">{title}</text>',
        f'<text x="{WIDTH - 150}" y="18" fill="{SICK}">sick</text><text x="{WIDTH - 100}" y="18" fill="{HEALED}">healed</text>',
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - 10}" fill="none" stroke="{INK}" stroke-width="1"/>',
        f'<text x="{LEFT - 6}" y="{TOP + 10}" text-anchor="end" fill="{INK}">{good.max():.3g}</text>',
        f'<text x="{LEFT - 6}" y="{HEIGHT - BOTTOM}" text-anchor="end" fill="{INK}">{good.min():.3g}</text>',
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 8}" text-anchor="end" fill="{INK}">step {last:.0f}</text>',
        *body,
        "</svg>\n",
    ])  # fmt: skip


def _scale(value: float, log: bool) -> float:
    return math.log10(value) if log else float(value)


def _line(steps: np.ndarray, values: np.ndarray, colour: str, span: tuple[float, float, float], log: bool) -> str:
    """A polyline of at most 160 points; it breaks off with a cross where the value is no number any more."""
    low, high, last = span
    keep = np.unique(np.linspace(0, len(values) - 1, min(160, len(values))).astype(int))
    bad = np.flatnonzero(~np.isfinite(values))
    points = []
    for i in keep:
        if math.isfinite(values[i]):
            x = LEFT + (WIDTH - 10 - LEFT) * steps[i] / last
            y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (_scale(values[i], log) - low) / ((high - low) or 1.0)
            points.append(f"{x:.1f},{y:.1f}")
    end = ""
    if len(bad) and points:
        x, y = points[-1].split(",")
        end = f'<text x="{x}" y="{y}" fill="{colour}" font-weight="bold">× NaN</text>'
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.6"/>{end}'


if __name__ == "__main__":
    rules() if sys.argv[1:] == ["rules"] else page(*sys.argv[1:3])
