"""How often rules speak on sound runs: what the ranking of causes weighs a remark against.

Counted over the kept records of healthy programs, and written into the package (`traindx/diagnosis/rates.json`): a wheel has no clinic.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from clinic.case import HEALTHY, Case
from clinic.patient import SOURCE, record_dir
from traindx.finding import Outcome, Severity, Status

HERE = SOURCE / "diagnosis" / "rates.json"
LOOKED = (Status.FOUND, Status.CLEAR, Status.UNSURE)


def count(examined: Iterable[Sequence[Outcome]]) -> dict[str, Any]:
    """Per rule in how many runs it could look, and in how many of them it made which remark or raised which alarm."""
    runs, looked = 0, Counter[str]()
    said: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: {"remarks": Counter(), "alarms": Counter()})
    for outcomes in examined:
        runs += 1
        looked.update(o.code for o in outcomes if o.status in LOOKED)
        for o in outcomes:
            for variant, loud in {(f.variant, f.severity > Severity.INFO) for f in o.findings}:
                said[o.code]["alarms" if loud else "remarks"][variant] += 1
    rules = {
        code: {"looked": n, **{kind: dict(sorted(found.items())) for kind, found in said[code].items() if found}}
        for code, n in sorted(looked.items())
    }
    return {"runs": runs, "rules": rules}


def measured(cases: Iterable[Case]) -> dict[str, Any]:
    """The counts over healthy cases whose record is kept, by whatever version of the probes."""
    from traindx.diagnosis import examine
    from traindx.record import read

    homes = [record_dir(c, any_observer=True) / "record" for c in cases if c.kind == HEALTHY and c.group != "healed"]
    return count(examine(read(home)) for home in homes if home.exists())


def write(counted: dict[str, Any], path: Path = HERE) -> Path:
    rows = ",\n".join(f"{json.dumps(code)}:{json.dumps(row, separators=(',', ':'))}" for code, row in counted["rules"].items())
    path.write_text(f'{{"runs":{counted["runs"]},"rules":{{\n{rows}\n}}}}\n', encoding="utf-8")
    return path
