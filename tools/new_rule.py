"""`make rule code=GRAD008 name=shrinking-gradients`: the files of a new rule, ready to be filled."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

RULE = '''"""{title}: say in one sentence what this run has.

## What it sees

Which signal, which statistic, from how many records on.

## Why it matters

What it costs the user.

## What else looks like this

- The look-alike, and the test that tells them apart.

## What to do

The fix.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence
from traindx.rule import rule
from traindx.run import Run


@rule("{code}", needs={{"loss/train": 100}}, says="the last loss is {{ratio:.1f}} times the median", fix="")
def {function}(run: Run, *, limit: float = 100.0) -> Iterator[Evidence]:
    loss = run["loss/train"].finite()
    usual = float(np.median(loss.values)) if len(loss) else 0.0
    if usual > 0 and loss.last > limit * usual:
        yield Evidence({{"ratio": loss.last / usual, "limit": limit}}, steps=(int(loss.steps[-1]), int(loss.steps[-1])))
'''

TEST = '''"""{code} {name}."""

import numpy as np
from runs import a_run

from traindx.rules.{module} import {function} as rule


def test_fires_and_says_how_much() -> None:
    [found] = rule.findings(a_run(loss__train=[*np.ones(150), 1000.0]))
    assert found.facts["ratio"] == 1000.0


def test_a_calm_run_is_clear() -> None:
    assert not list(rule.findings(a_run(loss__train=np.ones(150))))
'''


def main(code: str, name: str) -> None:
    """Write the rule, its test and a news fragment; touch nothing that exists."""
    if not re.fullmatch(r"[A-Z]{4}\d{3}", code) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        sys.exit("usage: make rule code=GRAD008 name=shrinking-gradients")
    function = name.replace("-", "_")
    module = f"{code.lower()}_{function}"
    words = {"code": code, "name": name, "function": function, "module": module, "title": name.replace("-", " ").capitalize()}
    files = {
        ROOT / "src/traindx/rules" / f"{module}.py": RULE,
        ROOT / "tests/rules" / f"test_{code.lower()}.py": TEST,
        ROOT / "changes" / f"{code.lower()}.rule.md": "{code} {name}: what it finds.\n",
    }
    taken = [p for p in files if p.exists()] + list((ROOT / "src/traindx/rules").glob(f"{code.lower()}_*.py"))
    if taken:
        sys.exit(f"{taken[0].relative_to(ROOT)} exists already")
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.format(**words), encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(*(sys.argv[1:3] if len(sys.argv) > 2 else ("", "")))
