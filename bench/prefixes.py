"""Is what is said early taken back later? Every run is judged on each twentieth of its way.

python -m bench.prefixes [--live N] [--csv N] [RECORD …]     the sweeps' open half (bench/sweeps.py), and any records given

*Told and taken back*: an alarm on some part of the run that the whole run does not raise any more. *Flapping*: the answer to
"did it learn?" comes back to a state that it had left. A part of a live record counts as still running; a part of a CSV file
cannot be told from a whole one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from bench import sweeps

from traindx import api
from traindx.diagnosis import Diagnosis, diagnose
from traindx.run import Run

PARTS = 20


@dataclass(frozen=True)
class Course:
    """What was said of one run while it grew."""

    name: str
    alarms: tuple[frozenset[str], ...]
    states: tuple[str, ...]

    @property
    def taken_back(self) -> frozenset[str]:
        return frozenset().union(*self.alarms[:-1]) - self.alarms[-1]

    @property
    def silenced(self) -> bool:
        """It had an alarm once and has none at the end."""
        return any(self.alarms) and not self.alarms[-1]

    @property
    def flaps(self) -> bool:
        visited = [state for state, _ in groupby(self.states)]
        return len(visited) != len(set(visited))


def _loud(d: Diagnosis) -> frozenset[str]:
    return frozenset(f.code for f in d.findings if f.severity.value != "info")


def watched(name: str, run: Run, *, live: bool) -> Course:
    first, last = run.steps or (0, 0)
    ends = [first + round((last - first) * k / PARTS) for k in range(1, PARTS)]
    parts = [run.between(hi=int(end)) for end in np.unique(ends)]
    if live:
        parts = [part.with_(facts={"ended": "running"}) for part in parts]
    said = [diagnose(part) for part in parts] + [diagnose(run)]
    return Course(name, tuple(_loud(d) for d in said), tuple(str(d.learned.state) for d in said))


def courses(a: argparse.Namespace) -> Iterator[Course]:
    for path in a.records:
        yield watched(path.parent.name, api.load(path)[0], live=True)
    runs = [r for r in sweeps.trained() if not r["sealed"]] if a.live or a.csv else []
    for form, most in (("live", a.live), ("csv", a.csv)):
        for r in runs[:: max(1, len(runs) // most)] if most else []:
            yield watched(f"{form} {r['name']}", api.load(sweeps.source_of(r, form))[0], live=form == "live")


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("records", nargs="*", type=Path)
    ask.add_argument("--live", type=int, default=0, help="so many of the sweeps' live records")
    ask.add_argument("--csv", type=int, default=0, help="so many of the sweeps' CSV files")
    ask.add_argument("--show", action="store_true")
    a = ask.parse_args()
    found = list(courses(a))
    silenced, back, flapping = (
        [c for c in found if test(c)] for test in (lambda c: c.silenced, lambda c: c.taken_back, lambda c: c.flaps)
    )
    print(
        f"{len(found)} runs: alarmed and quiet at the end {len(silenced)}; some alarm taken back {len(back)}; flapping {len(flapping)}"
    )
    for c in found if a.show else []:
        if c.taken_back or c.flaps:
            print(c.name, sorted(c.taken_back), "->", sorted(c.alarms[-1]), " ".join(state for state, _ in groupby(c.states)))


if __name__ == "__main__":
    main()
