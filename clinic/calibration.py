"""How far the probabilities of causes can be believed: Brier score, reliability table, error, leaving one base out at a time.

The yard-stick is the first cause named in any run: it is right (1) or not (0), and it was given a probability. Of a healthy run
no cause is right: "nothing is wrong" is among the rivals, so a cause named there counts against us. One number is fitted, a temperature of the log-odds, on all runs but those of one base program (a written case is a base of its own), and
judged on the ones left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from clinic.figures import Line, wilson

Pair = tuple[str, float, int]  # base, probability of the first cause, whether it is an accepted one
TEMPERATURES = tuple(0.2 * 1.15**i for i in range(24))
BINS = ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.0001))


def pairs(lines: Sequence[Line]) -> list[Pair]:
    """What was said and whether it was right, of the runs in which a cause was named; twins may be sick with something else."""
    out = []
    for x in lines:
        said = x.get("probabilities") or ()
        if said and said[0] is not None and x["group"] not in ("below", "healed"):
            right = x.get("top1", False)
            if right is None:  # no cause was due: what was said of one is still right or wrong
                right = x["causes"][0] in x["expected"]["causes"]
            out.append((x["base"] or x["name"], float(said[0]), int(right)))
    return out


def tempered(p: float, temperature: float) -> float:
    """A probability with its log-odds multiplied; 1 leaves it as it is.

    >>> round(tempered(0.9, 0.5), 2)
    0.75
    """
    p = min(max(p, 1e-4), 1 - 1e-4)
    return 1 / (1 + math.exp(-temperature * math.log(p / (1 - p))))


def brier(said: Sequence[Pair], temperature: float = 1.0) -> float:
    """Mean squared distance of the probability from the truth; 0.25 is what a coin would score."""
    return sum((tempered(p, temperature) - hit) ** 2 for _, p, hit in said) / len(said)


def fitted(said: Sequence[Pair]) -> float:
    """The temperature with the lowest Brier score."""
    return min(TEMPERATURES, key=lambda t: brier(said, t))


def left_out(said: Sequence[Pair]) -> list[Pair]:
    """Every run with the probability it gets from a temperature fitted without its base."""
    out = []
    for base in sorted({b for b, _, _ in said}):
        rest = [x for x in said if x[0] != base]
        temperature = fitted(rest) if rest else 1.0
        out += [(b, tempered(p, temperature), hit) for b, p, hit in said if b == base]
    return out


def reliability(said: Sequence[Pair]) -> list[dict[str, Any]]:
    """Per band of probability: how many runs, what was said on average, how often it was right, with interval."""
    table = []
    for low, high in BINS:
        inside = [(p, hit) for _, p, hit in said if low <= p < high]
        if inside:
            k, n = sum(hit for _, hit in inside), len(inside)
            below, above = wilson(k, n)
            mean = sum(p for p, _ in inside) / n
            table.append({"low": low, "high": min(high, 1.0), "n": n, "said": mean, "right": k / n, "from": below, "to": above})
    return table


def error(said: Sequence[Pair]) -> float:
    """Expected calibration error: the distance of what was said from what was right, weighted by how often."""
    return sum(row["n"] * abs(row["said"] - row["right"]) for row in reliability(said)) / len(said) if said else math.nan


def summary(lines: Sequence[Line]) -> dict[str, Any]:
    """The figures as given and with one base left out at a time; empty without sick runs."""
    said = pairs(lines)
    if not said:
        return {}
    out = left_out(said)
    return {
        "runs": len(said),
        "healthy": sum("top1" not in x and bool(x.get("probabilities")) for x in lines),
        "bases": len({b for b, _, _ in said}),
        "temperature": fitted(said),
        "brier": brier(said),
        "ece": error(said),
        "table": reliability(said),
        "left_out": {"brier": brier(out), "ece": error(out), "table": reliability(out)},
    }


def page(told: dict[str, Any]) -> str:
    """The same as Markdown."""
    if not told:
        return ""
    rows = [
        "",
        f"First causes with a probability: {told['runs']} runs of {told['bases']} bases, {told['healthy']} of them healthy, where "
        f"no cause is right. Brier score {told['brier']:.3f}, "
        f"expected calibration error {told['ece']:.3f}; with one base left out at a time and a temperature fitted on the "
        f"others {told['left_out']['brier']:.3f} and {told['left_out']['ece']:.3f}.",
        "",
        "| said | runs | said on average | right (95 % interval) |",
        "|---|---|---|---|",
    ]
    rows += [_row(r) for r in told["table"]]
    rows += ["", "The same with one base left out at a time:", "", *rows[3:5]]
    rows += [_row(r) for r in told["left_out"]["table"]]
    return "\n".join(rows) + "\n"


def _row(r: dict[str, Any]) -> str:
    band, interval = f"{r['low']:.2f}–{r['high']:.2f}", f"{r['from']:.2f}–{r['to']:.2f}"
    return f"| {band} | {r['n']} | {r['said']:.2f} | {r['right']:.2f} ({interval}) |"
