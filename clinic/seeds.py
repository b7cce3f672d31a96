"""The same sick program with other seeds: does the diagnosis stay the same?

The seeds in the program's text are moved; the fault, its truth and everything else stay. A case agrees when the most frequent
first cause is named in at least four of five runs; a case is right in those runs whose first cause is an accepted one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from clinic.case import WORK, BadCase, Case
from clinic.judge import judge
from clinic.patient import examine

SEED = re.compile(r"(seed\w*\s*(?:\(|=)\s*|default_rng\(|RandomState\(|random_state\s*=\s*)(\d+)", re.IGNORECASE)
APART = 1000  # between the seeds of two runs
ENOUGH = 4  # of five
# Statistical diagnoses, whose evidence moves with the seed: an exact fact agrees with itself anyway. Cheap ones.
USUAL = (
    "adam_lr_half",
    "learning_rate_in_the_mud",
    "majority_only",
    "overfit_small_sample",
    "raw_wine_features",
    "saturated_tanh",
    "sgd_bounces",
    "shuffled_apart",
    "sigmoid_tower",
    "weight_decay_of_sixty",
)


def reseeded(case: Case, count: int = 5) -> Iterator[Case]:
    """The case as it is, and with every seed in its text moved."""
    if not SEED.search(case.text):
        raise BadCase(f"{case.name}: no seed in its text")
    yield case
    folder = WORK / "seeds"
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(1, count):
        path = folder / f"{case.name}__seed{k}.py"
        shift = k * APART
        path.write_text(SEED.sub(lambda m, by=shift: f"{m[1]}{int(m[2]) + by}", case.text), encoding="utf-8")
        yield replace(case, name=path.stem, path=path)


def agreement(name: str, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the runs of one case say, and whether enough of them say the same."""
    first = [(x.get("causes") or ["–"])[0] for x in lines]
    common, times = Counter(first).most_common(1)[0]
    return {
        "case": name,
        "runs": len(lines),
        "cause": common,
        "same": times,
        "right": sum(bool(x.get("top1")) for x in lines),
        "verdict_right": sum(bool(x.get("verdict_right")) for x in lines),
        "agrees": times * 5 >= ENOUGH * len(lines),
        "said": first,
    }


def measure(
    cases: Sequence[Case], count: int = 5, *, forked: bool = True, say: Callable[[str], None] = print
) -> list[dict[str, Any]]:
    """Every case with `count` seeds, one line each as it is done."""
    table = []
    for case in cases:
        lines = [judge(c, examine(c, any_observer=True, forked=forked)) for c in reseeded(case, count)]
        row = agreement(case.name, lines)
        say(
            f"{row['case']:32s} {row['same']}/{row['runs']} {row['cause']:28s} right {row['right']}, verdict {row['verdict_right']}"
        )
        table.append(row)
    return table


def page(table: Sequence[dict[str, Any]]) -> str:
    """The table as Markdown."""
    agree, runs = sum(r["agrees"] for r in table), sum(r["runs"] for r in table)
    rows = [
        f"Seeds: {agree} of {len(table)} cases name the same first cause in at least four of five runs; it is an accepted one in "
        f"{sum(r['right'] for r in table)} of {runs} runs, the verdict in {sum(r['verdict_right'] for r in table)}.",
        "",
        "| case | the same cause | accepted | verdict accepted |",
        "|---|---|---|---|",
        *(f"| {r['case']} | {r['cause']} {r['same']}/{r['runs']} | {r['right']} | {r['verdict_right']} |" for r in table),
    ]
    return "\n".join(rows) + "\n"
