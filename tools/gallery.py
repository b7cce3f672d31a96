"""Write the loss-curve gallery of the dashboard from recorded clinic programs: `python -m tools.gallery DIR`.

DIR holds one record per program, made with `traindx run --dir DIR/NAME clinic/cases/…/NAME.py`.
"""

# ruff: noqa: E501

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from traindx import api
from traindx.diagnosis import diagnose
from traindx.report.thinning import numbers, thin

OUT = Path(__file__).parent.parent / "src" / "traindx" / "dashboard" / "page" / "gallery.json"
CURVES = ("loss/train", "loss/val", "grad_norm", "lr", "update_ratio")
POINTS = 160

# program, what it is called in the gallery, the signature to look for
CASES = (
    ("healthy/smoothed_labels", "Healthy", "Training and validation fall together, fast first and ever slower; the gap stays small."),
    ("sick/sgd_diverges_on_regression", "Learning rate too high", "The loss climbs within a few steps, faster and faster, until it is no number any more."),
    ("sick/learning_rate_in_the_mud", "Learning rate too low", "The loss falls, but so slowly that the run ends before it gets anywhere; updates are a millionth of the weights."),
    ("sick/overfit_small_sample", "Overfitting", "Training goes on falling while validation turns and rises: the model learns the sample by heart."),
    ("sick/log_of_zero_by_hand", "A sudden NaN", "Nothing warns: the loss is fine until the very step at which one operation leaves its domain."),
    ("sick/sigmoid_tower", "Stalled from the start", "The loss stays at the level of a model that knows nothing; gradients vanish before they reach the first layers."),
    ("sick/step_lr_every_batch", "Frozen by its schedule", "A good start, then a flat line: the learning rate has died because the scheduler steps per batch."),
    ("sick/spikes_from_a_hot_corner", "Spikes", "The loss leaps and comes back, again and again; the gradient norm shows the same leaps."),
    ("eleven_pm/noise_floor", "At the noise floor", "Flat and healthy: what is left is noise in the labels, and no learning rate will remove it."),
)  # fmt: skip


def case(folder: Path, program: str, title: str, signature: str) -> dict[str, Any] | None:
    place = folder / Path(program).name
    if not place.exists():
        return None
    run = api.load(place)[0]
    d = diagnose(run)
    curves = {}
    for name in CURVES:
        series = run.series(name)
        if len(series) > 1:
            steps, values = thin(series.steps, series.values, POINTS)
            curves[name] = {"x": steps.tolist(), "y": [None if v is None else float(f"{v:.4g}") for v in numbers(values)]}
    loud = list(dict.fromkeys(f.code for f in d.findings if f.severity.value != "info"))
    root = f"{Path(__file__).resolve().parents[1]}/"
    about = {"program": f"clinic/cases/{program}.py", "title": title, "signature": signature}
    return about | {"verdict": d.verdict, "summary": d.summary.replace(root, ""), "findings": loud, "curves": curves}


def main() -> None:
    made = [c for c in (case(Path(sys.argv[1]), *row) for row in CASES) if c]
    OUT.write_text(json.dumps({"cases": made}, allow_nan=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{OUT}: {len(made)} curves, {OUT.stat().st_size} bytes")
    for c in made:
        print(f"  {c['title']}: {c['verdict']} {c['findings']} {c['summary'][:100]}")


if __name__ == "__main__":
    main()
