"""Agreement with the labels of a folder of logs: per log what was found, alarms on healthy logs, the share agreed.

    python bench/logs_agreement.py FOLDER [--labels FILE] [--only ID …] [--json FILE] [-v]

The folder holds LABELS.jsonl, of one of two kinds. Rows with `labels` are scored by the table below, that of the logs'
README. Rows with `verdict_ok` and `codes` are stricter: a sick log is right with an accepted verdict and an accepted
condition, a healthy one with an accepted verdict and no alarm. Ambiguous logs and twins are shown and not counted.

The table is lenient: a remark (info) agrees with a sick label and costs nothing on a healthy log, so a rule that always
remarks would agree with everything. Beside it stand therefore the agreement without hints, the agreement of alarms alone,
how often the same codes appear on logs that do NOT carry the label, and what shuffled labels would reach. The rules were
mended on these very logs: none of these figures says how they fare on others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from traindx import importers
from traindx.diagnosis import diagnose
from traindx.errors import NothingReadable

AGREES = {
    "overfitting": {"LOSS008", "LOSS012", "TUNE006"},
    "underfitting/plateau-high": {"LOSS009", "LOSS002", "LOSS011", "LOSS003", "LOSS013"},
    "plateau-after-drop": {"LOSS003", "LOSS011"},
    "diverged": {"LOSS001", "OPTM002"},
    "nan": {"NUMR001", "NUMR002", "NUMR003", "NUMR005", "LOSS001", "LOSS011"},
    "loss-spikes": {"LOSS006", "LOSS007", "GRAD003"},
    "oscillating": {"LOSS005"},
    "val-better-than-train": {"EVAL006"},
    "unstable-grad-norm": {"GRAD003", "GRAD002"},
}
QUIET = ("healthy", "too-short-to-say")


def judge(path: Path) -> tuple[list[tuple[str, str, str, str]], str, int]:
    """(code, severity, confidence, message) of all runs in a log, the verdict, and how many runs it holds."""
    try:
        runs = importers.read(path)
    except NothingReadable as why:
        return [("exit3", "info", "", str(why)[-100:])], "unreadable", 0
    found, verdicts = [], []
    for run in runs:
        result = diagnose(run)
        found += [(f.code, f.severity.value, f.confidence.value, f.message) for f in result.findings]
        found += [(o.code, "critical", "broken", o.reason[-300:]) for o in result.outcomes if o.status.value == "broken"]
        verdicts.append(result.verdict.name if hasattr(result.verdict, "name") else str(result.verdict))
    return found, "/".join(dict.fromkeys(verdicts)), len(runs)


def agreed(label: str, found: list[tuple[str, str, str, str]], verdict: str) -> bool | None:
    """Whether what was found agrees with a label; None for labels that are only for reading."""
    loud = [f for f in found if f[1] in ("warning", "critical")]
    if label == "healthy":
        return not loud
    if label == "too-short-to-say":
        return not loud or "cannot-tell" in verdict or verdict == "unreadable"
    wanted = AGREES.get(label)
    return None if wanted is None else any(f[0] in wanted for f in found)


def sober(rows: list[dict]) -> None:
    """What the lenient figure hides, on the sick labels of counted logs."""
    counted = [r for r in rows if r["counted"]]
    kinds = {
        "any finding (README)": lambda f: True,
        "without suggestive hints": lambda f: f[2] != "suggestive",
        "warning or critical only": lambda f: f[1] != "info",
    }
    print("\nsick labels only            agreed        on logs without the label   shuffled labels")
    for title, keep in kinds.items():
        codes = [{f[0] for f in r["found"] if keep(f)} for r in counted]
        sick = [(i, label) for i, r in enumerate(counted) for label in r["labels"] if label in AGREES]
        right = sum(bool(codes[i] & AGREES[label]) for i, label in sick)
        others = [(i, label) for label in {x for _, x in sick} for i, r in enumerate(counted) if label not in r["labels"]]
        false = sum(bool(codes[i] & AGREES[label]) for i, label in others)
        chance = sum(sum(bool(c & AGREES[label]) for c in codes) / len(codes) for _, label in sick)
        print(
            f"  {title:25s} {right:3d}/{len(sick)} = {right / max(len(sick), 1):4.0%}   {false:4d}/{len(others)} = "
            f"{false / max(len(others), 1):4.0%}             {chance / max(len(sick), 1):4.0%}"
        )
    odd = [r["id"] for r in counted if r["verdict"] == "healthy" and set(r["labels"]) & set(AGREES) - {"val-better-than-train"}]
    print("verdict 'healthy' in spite of a sick label:", " ".join(odd) or "none")


def strict(folder: Path, rows: list[dict], verbose: bool) -> dict:
    """Score rows that name the verdicts and conditions a senior engineer would accept."""
    count = dict.fromkeys(("sick", "sick right", "healthy", "healthy right", "false alarms", "verdict accepted", "unread"), 0)
    for row in rows:
        if row.get("ambiguous") or not (folder / row["file"]).exists():
            continue
        found, verdict, _ = judge(folder / row["file"])
        verdicts = ["unread"] if verdict == "unreadable" else verdict.split("/")
        loud = sorted({f[0] for f in found if f[1] != "info"})
        kind = "sick" if row["codes"] else "healthy"
        said = any(v in row["verdict_ok"] for v in verdicts)
        right = said and (any(f[0] in row["codes"] for f in found) if row["codes"] else not loud)
        count[kind] += 1
        count[f"{kind} right"] += right
        count["false alarms"] += bool(kind == "healthy" and loud)
        count["verdict accepted"] += said
        count["unread"] += verdict == "unreadable" and "cannot-tell" not in row["verdict_ok"]
        if verbose or not right:
            print(
                f"{'ok  ' if right else 'MISS'} {row['id']} {row['label']} | accepted {row['verdict_ok']} | said {verdicts} {loud}"
            )
    print(
        f"sick right {count['sick right']}/{count['sick']}; healthy right {count['healthy right']}/{count['healthy']}, "
        f"false alarms {count['false alarms']}; verdict accepted {count['verdict accepted']}/{count['sick'] + count['healthy']}; "
        f"unread {count['unread']}"
    )
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, metavar="FOLDER")
    parser.add_argument("--labels", type=Path, help="instead of LABELS.jsonl in the folder")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true")
    chosen = parser.parse_args()
    labels = [json.loads(line) for line in (chosen.labels or chosen.logs / "LABELS.jsonl").read_text().splitlines()]
    if "verdict_ok" in labels[0]:
        count = strict(chosen.logs, [r for r in labels if not chosen.only or r["id"] in chosen.only], chosen.verbose)
        if chosen.json:
            chosen.json.write_text(json.dumps(count, indent=1))
        return 0
    index = {r["id"]: r for r in map(json.loads, (chosen.logs / "INDEX.jsonl").read_text().splitlines())}
    counted = right = alarms = critical = 0
    rows, misses = [], []
    for entry in labels:
        if chosen.only and entry["id"] not in chosen.only:
            continue
        begun = time.process_time()
        found, verdict, runs = judge(chosen.logs / index[entry["id"]]["file"])
        spent = time.process_time() - begun
        counts = not entry["ambiguous"] and "twin_of" not in entry
        marks = []
        for label in entry["labels"]:
            ok = agreed(label, found, verdict)
            if ok is not None and counts:
                counted, right = counted + 1, right + ok
                if not ok:
                    misses.append(f"{entry['id']}:{label}")
            marks.append(f"{label}{'' if ok is None else ' ok' if ok else ' NO'}")
        loud = [f for f in found if f[1] != "info"]
        if counts and set(entry["labels"]) & set(QUIET):
            alarms += bool(loud)
        if counts and "healthy" in entry["labels"]:
            critical += any(f[1] == "critical" for f in found)
        short = " ".join(sorted({f"{c}{'!!' if s == 'critical' else '!' if s == 'warning' else ''}" for c, s, _, _ in found}))
        flag = " " if counts else "~"
        print(f"{flag}{entry['id']} {runs} run(s) {spent:5.2f}s {verdict:14s} [{', '.join(marks)}]  {short}")
        if chosen.verbose:
            for code, severity, confidence, message in sorted(set(found)):
                print(f"        {code} {severity}/{confidence}: {message[:200]}")
        rows.append({"id": entry["id"], "labels": entry["labels"], "counted": counts, "verdict": verdict, "found": found})
    print(f"\nagreement on unambiguous labels: {right}/{counted} = {right / max(counted, 1):.1%}")
    print(f"critical on healthy: {critical}; healthy or too short with an alarm: {alarms}")
    print("missed:", " ".join(misses) or "none")
    sober(rows)
    if chosen.json:
        chosen.json.write_text(json.dumps({"right": right, "counted": counted, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
