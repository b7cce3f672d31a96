"""How soon is it said? The figures of the judge beside a run.

    python -m bench.latency facts [--sample N]    clinic programs, really run, 50 ms a step: exact facts
    python -m bench.latency replay [--sample N]   the stored runs of clinic/yard, judged as they grew: everything else, and lines
    python -m bench.latency cost [--minutes M]    CPU time of the program with live against without, and of the judge

`replay` counts steps of 50 ms, spaces its looks as the judge does, with the time that each look took here, and cuts the stored
run at each. Stored facts are those of the end, so that exact facts are left to `facts`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

from clinic import store
from clinic.case import HEALTHY, Case, written
from clinic.yard import YARD

from traindx import record, regime
from traindx.diagnosis import Diagnosis, diagnose
from traindx.finding import Severity
from traindx.live import judge
from traindx.live.settled import LEAST, Settled, exact
from traindx.plain import safe
from traindx.run import Run

PACE_S = 0.05
RESULTS = Path(__file__).parent / "results" / "latency.json"
PACE = textwrap.dedent("""
    import os, runpy, sys, time
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    made = [0]
    def wait(*args):
        made[0] += 1
        if made[0] == 20: open(os.environ["AT20"], "w").write(repr(time.time()))
        if made[0] == int(os.environ["LAST"]): raise SystemExit(0)
        time.sleep(PACE)
    register_optimizer_step_post_hook(wait)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
""").replace("PACE)", f"{PACE_S})")


def loud(found: Diagnosis) -> set[str]:
    """The conditions behind its alarms."""
    return {f.code for f in found.findings if f.severity >= Severity.WARNING}


def looks(run: Run) -> list[tuple[int, list[Any]]]:
    """The looks of a judge at a run that grows by a step each 50 ms: the step, and what was told."""
    settled, told = Settled(), []
    judged, looked, spent = -1, -1e9, 0.0
    for step in range(judge.FIRST - 1, run.steps[1] + 1 if run.steps else 0):
        now = step * PACE_S
        grown = judged < 0 or step - judged >= max(1, judge.GROWN * judged) or now - looked >= judge.LATE_S
        if not grown or now - looked < judge.APART_S or spent > judge.CREDIT_S + judge.SHARE * now:
            continue
        begun = time.process_time()
        found = diagnose(run.between(hi=step).with_(facts={"ended": "running"}))
        told.append((step, settled.look(found)))
        judged, looked, spent = step, now, spent + time.process_time() - begun
    end = run.steps[1] if run.steps else 0
    told.append((end, settled.look(diagnose(run), last=True)))
    return told


def replayed(case: Case) -> dict[str, Any]:
    """One stored run, judged as it grew."""
    run = store.load(YARD / f"{case.name}.npz")
    end, told = diagnose(run), looks(run)
    last = run.steps[1] if run.steps else 0
    line = {"name": case.name, "kind": case.kind, "steps": last + 1, "looks": len(told), "alarm_at_end": bool(loud(end))}
    line["lines"] = [(step, w.story.root.code, w.back) for step, words in told for w in words]
    line["taken_back"] = any(back for _, _, back in line["lines"])
    mine = [f for f in end.findings if f.code in case.codes and f.severity >= Severity.WARNING and not exact(f)]
    if case.kind != HEALTHY and mine:
        allowed = max(200.0, 0.15 * (last + 1), float(regime.steps_per_epoch(run) or 0))
        at = [step for step, words in told for w in words if _stands_for(w, case)]
        line |= {"from_step": case.from_step, "allowed": allowed, "told_at": min(at, default=None)}
        line["in_time"] = bool(at) and min(at) - case.from_step <= allowed
    return line


def _stands_for(word: Any, case: Case) -> bool:
    """Whether it tells one of the accepted findings, itself or as what it accounts for."""
    story = word.story
    return not word.back and not {f.code for f in (story.root, *story.more, *story.consequences)}.isdisjoint(case.codes)


def paced(case: Case, steps: int) -> dict[str, Any] | None:
    """A program really run, a step each 50 ms: how long after its 20th update each exact fact was told; None without any."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "pace.py").write_text(PACE)
        env = {**os.environ, "AT20": str(home / "at20"), "LAST": str(steps)}
        words = [sys.executable, "-m", "traindx", "run", "--dir", str(home / "run"), str(home / "pace.py"), str(case.path)]
        heard: list[tuple[float, str]] = []
        with subprocess.Popen(words, cwd=home, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as child:
            assert child.stderr is not None
            heard += [(time.time(), text) for text in child.stderr]
        if not (home / "at20").exists() or not record.is_record(home / "run"):
            return None
        begun = float((home / "at20").read_text())
        found = diagnose(record.read(home / "run"))
    facts = [s.root for s in found.stories if s.severity >= Severity.WARNING and exact(s.root) and s.root.code in case.codes]
    late = []
    for fact in facts:
        said = _words(safe(fact.message, 300))[:40]  # its numbers grow while it trains
        at = next((when for when, text in heard if text.startswith("traindx · step") and said in _words(text)), None)
        late.append({"code": fact.code, "after_s": None if at is None else round(at - begun, 2)})
    return {"name": case.name, "facts": late} if late else None


def _words(text: str) -> str:
    return re.sub(r"[\d.,%]+", "#", text)


def cost(minutes: float) -> dict[str, float]:
    """CPU seconds of the program with a judge and without, in turn, and the judge's own share of a core."""
    program = textwrap.dedent(f"""
        import time, torch
        torch.manual_seed(0)
        m = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        o = torch.optim.SGD(m.parameters(), 0.01)
        end = time.time() + {60 * minutes}
        for step in range(int({60 * minutes} / {PACE_S})):
            x = torch.randn(64, 64); l = torch.nn.functional.cross_entropy(m(x), x[:, :10].argmax(1))
            o.zero_grad(); l.backward(); o.step(); time.sleep({PACE_S})
        t = time.process_time(); open("cpu", "w").write(repr(t))
    """)
    told: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(program)
        for name, live in (
            ("without", "--no-live"),
            ("with", "--live"),
            ("without again", "--no-live"),
            ("with again", "--live"),
        ):
            words = [sys.executable, "-m", "traindx", "run", "--quiet", live, "train.py"]
            with subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL) as child:
                while child.poll() is None:
                    time.sleep(0.5)
                    told |= _judge(Path(folder))
            told[name] = float((Path(folder) / "cpu").read_text())
    told["judge_share"] = told.get("judge_s", 0.0) / (60 * minutes)
    return told


def _judge(folder: Path) -> dict[str, float]:
    """CPU time and memory of the judge that was started in this folder, while it is there."""
    for entry in Path("/proc").iterdir():
        try:
            mine = entry.name.isdecimal() and (entry / "cwd").readlink() == folder
            if mine and b"traindx.live.judge" in (entry / "cmdline").read_bytes():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                ticks = os.sysconf("SC_CLK_TCK")
                return {"judge_s": (int(fields[11]) + int(fields[12])) / ticks, "judge_mb": int(fields[21]) * 4096 / 1e6}
        except OSError:
            continue
    return {}


def main() -> None:
    """Measure, print, keep."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("what", choices=("facts", "replay", "cost"))
    ask.add_argument("--sample", type=int, default=10_000, help="so many runs, evenly taken")
    ask.add_argument("--minutes", type=float, default=10.0)
    given = ask.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    cases = [c for c in written() if (YARD / f"{c.name}.npz").exists()]
    cases = cases[:: max(1, len(cases) // given.sample)]
    if given.what == "cost":
        kept["cost"] = cost(given.minutes)
        print(kept["cost"])
    elif given.what == "facts":
        lines = [line for c in cases if c.kind != HEALTHY and (line := paced(c, 20 + LEAST * 6))]
        late = [fact["after_s"] for line in lines for fact in line["facts"]]
        kept["facts"] = {"told": sum(s is not None and s <= 2.0 for s in late), "of": len(late), "lines": lines}
        print(f"exact facts told within 2 s of update 20: {kept['facts']['told']} of {len(late)}")
    else:
        lines = []
        for c in cases:
            lines.append(replayed(c))
            print(json.dumps(lines[-1]), flush=True)
        timed = [x for x in lines if "in_time" in x]
        well = [x for x in lines if x["kind"] == HEALTHY]
        kept["replay"] = {
            "in_time": sum(x["in_time"] for x in timed), "of": len(timed), "healthy": len(well),
            "alarm_at_end": sum(x["alarm_at_end"] for x in well), "lines": sum(bool(x["lines"]) for x in well),
            "taken_back": sum(x["taken_back"] for x in well), "runs": lines,
        }  # fmt: skip
        print({k: v for k, v in kept["replay"].items() if k != "runs"})
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
