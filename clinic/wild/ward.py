"""The ward: every program bare and observed, as whole processes; same bits, exit code, CPU ratio, verdict, findings, blind.

Sealed programs are run observed only with `--final`, and each such use is appended to `seals.jsonl` beside this file. What was
run bare is kept per program text, what was observed per version of the observing code; a stopped run goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clinic.case import WORK
from clinic.patient import ROOT, environment, judge_again, judge_version, observer_version
from clinic.wild.program import HERE, STANDINS, BadProgram, Program, choose, lay_out, programs

SEALS = HERE / "seals.jsonl"
KEPT = WORK / "wild"
TIMED = re.compile(r"\d[\d.,:e+-]*\s*(?:ms|s|sec|seconds|min|it/s|h)\b|(?:time|sps|fps|elapsed|duration|eta|took|speed|date)", re.I)


@dataclass(frozen=True)
class Ask:
    """What is to be run, and how."""

    only: str = "*"
    sample: int | None = None
    final: str = ""  # why the seal is broken; without, sealed programs are left alone
    sources: Path = Path()
    limit_s: float = 240.0  # wall clock, per process
    bare: bool = False  # only show that programs run: nothing is observed
    fresh: bool = False
    packages: bool = False  # only what needs no checkout


class Sealed(RuntimeError):
    """A program or mutant that is set aside was asked for without --final."""


def break_seal(what: str, names: Sequence[str], why: str) -> None:
    """Log a use of what was set aside. There is no other way to it."""
    if len(why) < 8:
        raise Sealed("say why the seal is broken: --final 'the bars of issue 25'")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    entry = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit, "what": what, "why": why}
    with SEALS.open("a", encoding="utf-8") as out:
        out.write(json.dumps({**entry, "count": len(names), "names": sorted(names)}) + "\n")


def chosen(ask: Ask) -> list[Program]:
    """The programs asked for: the open half, or with --final the sealed one."""
    known = [p for p in programs() if not (ask.packages and p.public)]
    if ask.bare:
        return choose(known, ask.only, ask.sample)
    half = [p for p in known if p.sealed == bool(ask.final)]
    picked = choose(half, ask.only, ask.sample)
    if ask.final:
        break_seal("programs", [p.name for p in picked], ask.final)
    elif not picked and choose(known, ask.only):
        raise Sealed(f"{ask.only}: sealed; it runs only with --final and a reason")
    return picked


def python_of(program: Program) -> str:
    """The interpreter of the program's environment; made by `make wild`."""
    if not program.env:
        return sys.executable
    path = Path(os.environ.get("TRAINDX_ENVS") or ROOT) / f".venv-wild-{program.env}" / "bin" / "python"
    if not path.exists():
        raise BadProgram(f"{program.name}: no environment {program.env}; `make wild` makes it")
    return str(path)


def surroundings(program: Program, folder: Path, **more: str) -> dict[str, str]:
    """One thread, the stand-ins, no network, no display; the program's folder can be imported from."""
    env = environment()
    vision = [str(STANDINS / "vision")] if program.public else []  # libraries must not take the stand-in for the real one
    paths = os.pathsep.join((str(STANDINS), *vision, str(folder), env["PYTHONPATH"]))
    calm = {"PYTHONHASHSEED": "0", "MPLBACKEND": "Agg", "WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    calm |= {"KERAS_BACKEND": "torch", "DDE_BACKEND": "pytorch", "SDL_VIDEODRIVER": "dummy", "PYTHONDONTWRITEBYTECODE": "1"}
    calm |= {"HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
    return env | calm | {"PYTHONPATH": paths} | more


def process(command: Sequence[str], cwd: Path, env: dict[str, str], limit_s: float) -> dict[str, Any]:
    """A whole process and its children: {exit, seconds, cpu_s, stdout, stderr}."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, cwd=cwd, env=env, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = child.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            code = -1
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "exit": code, "seconds": round(time.perf_counter() - began, 2), "cpu_s": round(cpu, 2),
        "stdout": texts[0], "stderr": texts[1][-4000:],
    }  # fmt: skip


def key(program: Program, main: Path, *more: str) -> str:
    """Content hash of what runs: the program's files after the edits, its arguments, its environment."""
    h = hashlib.sha256(repr((program.name, program.args, program.env, program.data, *more)).encode())
    for file in sorted(main.parent.rglob("*.py")):
        h.update(file.read_bytes())
    return h.hexdigest()[:16]


def run_bare(program: Program, ask: Ask, *, seed: int = 0, again: bool = False, change: Any = None) -> dict[str, Any]:
    """The program under plain Python; kept. `change` rewrites the laid-out files (mutants)."""
    with _scratch(program) as folder:
        main = lay_out(program, folder, ask.sources)
        if change:
            change(folder)
        kept = KEPT / "bare" / f"{program.name}-{key(program, main, str(seed), str(again))}.json"
        if kept.exists() and not ask.fresh:
            return json.loads(kept.read_text(encoding="utf-8"))
        digest = folder.parent / "digest"
        env = surroundings(program, folder, WILD_DIGEST=str(digest), **({"WILD_SEED": str(seed)} if seed else {}))
        ended = process([python_of(program), program.main, *program.args], folder, env, ask.limit_s)
        ended["digest"] = digest.read_text(encoding="utf-8") if digest.exists() else ""
        if ended["exit"] == program.exit_code or change:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(ended), encoding="utf-8")
        return ended


def run_observed(program: Program, ask: Ask, *, change: Any = None) -> dict[str, Any]:
    """The program under `traindx run`: as bare, with the report; the record is kept and judged again when only rules changed."""
    with _scratch(program) as folder:
        main = lay_out(program, folder, ask.sources)
        if change:
            change(folder)
        home = KEPT / "records" / f"{program.name}-{key(program, main)}-{observer_version()}"
        ran = home / "ran.json"
        if ran.exists() and not ask.fresh:
            told = json.loads(ran.read_text(encoding="utf-8"))
            return {**told, "report": judge_again(home) if (home / "record").exists() else None}
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        digest, report = folder.parent / "digest", home / "report.json"
        command = [python_of(program), "-m", "traindx", "run", "--format", "json", "-o", str(report), "--dir", str(home / "record")]
        env = surroundings(program, folder, WILD_DIGEST=str(digest))
        ended = process([*command, program.main, *program.args], folder, env, ask.limit_s)
        ended["digest"] = digest.read_text(encoding="utf-8") if digest.exists() else ""
        ran.write_text(json.dumps(ended), encoding="utf-8")
        ended["report"] = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        return ended


class _scratch:
    """A working folder that has the same name bare and observed, so that printed paths are the same."""

    def __init__(self, program: Program) -> None:
        self.home = Path(tempfile.gettempdir()) / f"traindx-wild-{os.getpid()}" / program.name

    def __enter__(self) -> Path:
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        return self.home / "run"

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.home, ignore_errors=True)


def same_text(a: str, b: str) -> bool:
    """Whether two outputs are the same; lines that speak of time may differ in their numbers."""
    rows = [[_still(row) for row in text.splitlines()] for text in (a, b)]
    return rows[0] == rows[1]


def _still(row: str) -> str:
    return re.sub(r"\d[\d.,:e+-]*", "#", row) if TIMED.search(row) else row


def look(program: Program, ask: Ask) -> dict[str, Any]:
    """One line of the ward."""
    bare = run_bare(program, ask)
    if bare["exit"] != program.exit_code:
        raise BadProgram(f"{program.name}: ends with {bare['exit']} bare: {bare['stderr'][-300:]}")
    seen = run_observed(program, ask)
    line: dict[str, Any] = {
        "name": program.name,
        "kind": program.kind,
        "truth": program.truth,
        "bare_cpu_s": bare["cpu_s"],
        "observed_cpu_s": seen["cpu_s"],
        "ratio": round(seen["cpu_s"] / bare["cpu_s"], 3) if bare["cpu_s"] else None,
        "same_exit": bare["exit"] == seen["exit"],
        "exit": [bare["exit"], seen["exit"]],
        "same_weights": bare["digest"] == seen["digest"] if bare["digest"] else None,
        "same_output": same_text(bare["stdout"], seen["stdout"]),
    }
    line["same_bits"] = bool(line["same_weights"] in (True, None) and line["same_output"])
    if not line["same_bits"]:
        second = run_bare(program, ask, again=True)
        if second["digest"] != bare["digest"] or not same_text(bare["stdout"], second["stdout"]):
            line["same_bits"] = None  # the program does not repeat itself
    return line | told(program, seen)


def told(program: Program, seen: dict[str, Any]) -> dict[str, Any]:
    """What the report says, shortly."""
    report = seen.get("report")
    if report is None:
        return {"error": seen["stderr"][-1500:]}
    findings, said = report["findings"], report["diagnosis"]
    loud = [f for f in findings if f["severity"] != "info" and f["code"] not in program.remarks]
    return {
        "verdict": said["verdict"],
        "causes": [(c["cause"], c.get("probability")) for c in said["causes"]][:3],
        "critical": sorted({f["code"] for f in loud if f["severity"] == "critical"}),
        "warning": sorted({f["code"] for f in loud if f["severity"] == "warning"}),
        "remarks": sorted({f["code"] for f in findings if f["severity"] == "info"}),
        "messages": {f["code"]: f["message"] for f in loud},
        "exact": sorted({f["code"] for f in loud if f.get("certainty") == "exact"}),
        "blind": len(report["outcomes"].get("blind", [])),
        "clear": len(report["outcomes"].get("clear", [])),
        "broken": [o["code"] if isinstance(o, dict) else o for o in report["outcomes"].get("broken", [])],
    }


def run(ask: Ask) -> list[dict[str, Any]]:
    """Lines of the chosen programs; finished ones are taken from the log of an earlier run of the same version."""
    picked = chosen(ask)
    log = KEPT / "ward.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    done = {} if ask.fresh or ask.bare else finished(log)
    lines = []
    for n, program in enumerate(picked, 1):
        began = time.monotonic()
        name = f"{program.name}:{judge_version()}"
        if name in done:
            lines.append(done[name])
            continue
        try:
            line = _bare_line(program, ask) if ask.bare else look(program, ask)
        except (BadProgram, OSError, SyntaxError) as why:
            line = {"name": program.name, "kind": program.kind, "error": f"{type(why).__name__}: {why}"}
        lines.append(line)
        if not ask.bare and "error" not in line:
            with log.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"key": name, **line}) + "\n")
        _progress(n, len(picked), line, time.monotonic() - began)
    return lines


def _bare_line(program: Program, ask: Ask) -> dict[str, Any]:
    ended = run_bare(program, ask)
    rows = ended["stdout"].strip().splitlines()
    line = {"name": program.name, "kind": program.kind, "exit": ended["exit"], "bare_cpu_s": ended["cpu_s"], "tail": rows[-3:]}
    line["steps"] = max((int(r.split()[0]) for r in ended["digest"].splitlines()), default=0)
    line["metric"] = metric(program, ended["stdout"])
    if ended["exit"] != program.exit_code:
        line["error"] = ended["stderr"][-600:]
    return line


def metric(program: Program, stdout: str) -> float | None:
    """The printed figure the program is measured by."""
    found = re.findall(program.metric, stdout) if program.metric else []
    return float(found[-1]) if found else None


def finished(log: Path) -> dict[str, dict[str, Any]]:
    """Lines of a log by key; the last one wins, a torn one is left out."""
    out: dict[str, dict[str, Any]] = {}
    if log.exists():
        for row in log.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(row)
            except json.JSONDecodeError:
                continue
            out[line.pop("key")] = line
    return out


def _progress(n: int, total: int, line: dict[str, Any], took: float) -> None:
    if "error" in line:
        what = "FAILED " + " ".join(line["error"].split())[-200:]
    elif "verdict" in line:
        loud = [f"{c}!" for c in line["critical"]] + line["warning"]
        what = f"{line['verdict']:15s} ×{line['ratio']:.2f} bits {line['same_bits']} {' '.join(loud)}"
    else:
        what = f"exit {line['exit']} steps ≥ {line['steps']} metric {line['metric']} | {' / '.join(line['tail'][-1:])[:100]}"
    print(f"{n}/{total} {line['name']:34s} {line.get('bare_cpu_s', 0):6.1f} s CPU, {took:4.0f} s  {what}", file=sys.stderr, flush=True)


def summary(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Rates with Wilson's intervals, alarms by rule, quantiles of the CPU ratio."""
    from clinic.figures import rate

    judged = [x for x in lines if "verdict" in x]
    healthy = [x for x in judged if x["truth"] == "healthy"]
    marks = [{**x, "crit": bool(x["critical"]), "loud": bool(x["critical"] or x["warning"])} for x in healthy]
    ratios = sorted(x["ratio"] for x in judged if x["ratio"])
    by_rule: dict[str, dict[str, list[str]]] = {}
    for severity in ("critical", "warning"):
        for x in healthy:
            for code in x[severity]:
                by_rule.setdefault(code, {}).setdefault(severity, []).append(x["name"])
    return {
        "programs": len(judged),
        "kinds": len({x["kind"] for x in judged}),
        "failed": [x["name"] for x in lines if "verdict" not in x],
        "critical": rate(marks, "crit"),
        "warning": rate(marks, "loud"),
        "same_bits": rate(judged, "same_bits"),
        "same_exit": rate(judged, "same_exit"),
        "ratio": {"median": _at(ratios, 0.5), "p90": _at(ratios, 0.9), "worst": ratios[-1] if ratios else None},
        "verdicts": {v: sum(x["verdict"] == v for x in healthy) for v in sorted({x["verdict"] for x in healthy})},
        "by_rule": dict(sorted(by_rule.items(), key=lambda kv: -sum(map(len, kv[1].values())))),
    }


def _at(values: Sequence[float], share: float) -> float | None:
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def page(lines: Sequence[dict[str, Any]]) -> str:
    """The ward as Markdown."""
    from clinic.figures import percent

    s = summary(lines)
    out = [
        f"{s['programs']} programs in {s['kinds']} kinds; could not be judged: {', '.join(s['failed']) or 'none'}.",
        "",
        "| figure | share (k/n, 95 % interval) |",
        "|---|---|",
        f"| healthy programs with a critical finding | {percent(s['critical'])} |",
        f"| … with a warning or worse | {percent(s['warning'])} |",
        f"| same bits, of those that repeat themselves | {percent(s['same_bits'])} |",
        f"| same exit code | {percent(s['same_exit'])} |",
        "",
        f"CPU of the whole process against bare: median {s['ratio']['median']}, p90 {s['ratio']['p90']}, worst {s['ratio']['worst']}.",
        f"Verdicts: {', '.join(f'{v} {n}' for v, n in s['verdicts'].items())}.",
        "",
        "| rule | critical | warning | programs |",
        "|---|---|---|---|",
    ]
    for code, by in s["by_rule"].items():
        names = by.get("critical", []) + by.get("warning", [])
        out.append(f"| {code} | {len(by.get('critical', []))} | {len(by.get('warning', []))} | {', '.join(names[:6])} |")
    out += ["", "| program | kind | CPU bare | ratio | bits | verdict | alarms | blind |", "|---|---|---|---|---|---|---|---|"]
    for x in lines:
        if "verdict" in x:
            loud = [f"**{c}**" for c in x["critical"]] + x["warning"]
            bits = {True: "same", False: "OTHER", None: "–"}[x["same_bits"]]
            out.append(
                f"| {x['name']} | {x['kind']} | {x['bare_cpu_s']} s | {x['ratio']} | {bits} | {x['verdict']} | {' '.join(loud)} | {x['blind']} |"
            )
    return "\n".join(out) + "\n"


def write(lines: Sequence[dict[str, Any]], name: str) -> Path:
    """Keep the figures in clinic/results/, as JSON and as Markdown."""
    path = HERE.parent / "results" / f"{name}.json"
    body = {"schema": "traindx.wild/1", "judge": judge_version(), "summary": summary(lines), "programs": list(lines)}
    path.write_text(json.dumps(body, separators=(",", ":")).replace('},{"name"', '},\n{"name"') + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(page(lines), encoding="utf-8")
    return path
