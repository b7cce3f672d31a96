"""The same cases through other tools, each installed in a folder of its own under clinic/work/peers/.

Readers of logs are handed the series of our own kept record (loss, validation loss, gradient norm, learning rate); tools
that hook into the model run the program themselves (`peer_driver.py`), attached at the first update. A peer knows nothing of
our codes, so each kind of its findings has a list of the conditions it could be about, drawn generously (`SUBJECTS`): a sick
run counts as found when a warning or worse is about the right subject, whatever else is said. Any warning on a healthy run is
a false alarm; advice on speed and style is not counted, neither way.
"""

from __future__ import annotations

import csv
import fnmatch
import importlib
import importlib.metadata
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from clinic import figures, score
from clinic.case import WORK, Case, written
from clinic.judge import judge
from clinic.patient import TIMEOUT_S, environment, examine, in_fork, record_dir

Row = dict[str, float]
Said = list[tuple[str, str]]  # (severity, kind)
OUT = score.RESULTS / "peers.json"
LOUD = {"warning", "warn", "critical", "error", "fatal"}
# What a kind of finding could be about: patterns on the codes of conditions. None is advice, no word on health.
_FLAT = ("LOSS002", "LOSS003", "LOSS009", "LOSS011", "OPTM001", "OPTM003", "OPTM005", "GRAD001", "GRAD004")
_WILD = ("LOSS001", "LOSS005", "LOSS006", "LOSS007", "OPTM002", "OPTM004", "OPTM013", "GRAD002", "GRAD003", "GRAD007")
_NAN = ("NUMR*", "DATA001", "LOSS001")
SUBJECTS: dict[str, dict[str, tuple[str, ...] | None]] = {
    "runmedic": {
        "non_finite": _NAN,
        "divergence": (*_WILD, "WGHT*", "WIRE004"),
        "loss_spikes": (*_WILD, "DATA*"),
        "no_learning": (*_FLAT, "DATA004", "WIRE*", "ACTV*"),
        "overfitting": ("LOSS008", "EVAL005", "EVAL007"),
        "val_below_train": ("EVAL*",),
        "grad_spikes": (*_WILD, "OPTM006"),
        "constant_lr_plateau": (*_FLAT,),
        "input_bound": ("PERF*",),
        "slow_steps": ("PERF*",),
        "slowdown": ("PERF*",),
        "memory_growth": ("PERF*",),
    },
    "trainpulse": {
        "nan_detector": _NAN,
        "loss_spike": (*_WILD, "DATA*", "WIRE004"),
        "gradient": ("GRAD*", *_WILD, "WGHT*", "WIRE004"),
        "learning_rate": ("OPTM*", "WIRE010", "TUNE*"),
        "plateau": (*_FLAT, "DATA004", "WIRE*", "ACTV*"),
        "step_time": ("PERF*",),
    },
    "training-doctor": {
        "*plateau*": (*_FLAT, "DATA004", "WIRE*", "ACTV*"),
        "*overfit*": ("LOSS008", "EVAL005", "EVAL007"),
        "*instab*": (*_WILD, "GRAD*", "WGHT*", "WIRE004", *_NAN),
        "*high*": ("OPTM*", *_WILD, "WIRE004", "TUNE*"),
        "*low*": ("OPTM*", *_FLAT, "TUNE*"),
        "*learning*": ("OPTM*", *_FLAT, *_WILD, "TUNE*"),
    },
    "torchmortem": {
        "update_ratio": ("OPTM*", "WIRE001", "TUNE*", "LOSS002", "LOSS001"),
        "saturation": ("ACTV*", "WGHT005", "GRAD001", "NUMR00[123]"),
        "dead_units": ("ACTV*", "WGHT005", "GRAD004"),
        "gradient_noise": ("GRAD*", "LOSS005", "DATA012", "OPTM005"),
        "gradient_flow": ("GRAD*", "ACTV*", "WGHT*", "WIRE00[1234]", "OPTM002", "LOSS002", *_NAN),
        "weight_norm": ("WGHT*", "OPTM*", "WIRE004", "LOSS001"),
        "loss_dynamics": ("LOSS*", *_FLAT, *_WILD, "DATA004", "WIRE*", *_NAN),
        "rank_collapse": ("ACTV*", "WGHT*", "SPEC*"),
    },
    "torch-audit": {
        "TA100": _NAN,
        "TA102": (*_WILD, "GRAD*", "WIRE004"),
        "TA103": ("ACTV*", "WGHT005", "GRAD004"),
        "TA104": ("GRAD*", "WIRE00[123]", "TUNE005"),
        "TA105": ("ACTV*", "WGHT005"),
        "TA405": ("ACTV*", "WGHT*"),
        "TA30*": ("DATA*", "WIRE013"),
        "TA50*": ("WIRE*", "GRAD004"),
        "TA2*": None,  # alignment, memory format, devices
        "TA40*": None,  # AdamW rather than Adam, even kernels, redundant biases, decay of biases
    },
}
HOOKED = ("torchmortem", "torch-audit")


def home(peer: str) -> Path:
    """Where the peer is installed; installs it there on first use."""
    folder = WORK / "peers" / peer
    if not folder.exists():
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), peer]
        subprocess.run(command, check=True)
    return folder


def version(peer: str) -> str:
    """The version installed in its folder."""
    found = importlib.metadata.distributions(path=[str(home(peer))])
    return next((d.version for d in found if d.metadata["Name"].lower().replace("_", "-") == peer), "")


def series(case: Case) -> list[Row]:
    """What a log of this run would hold, one row per step."""
    from traindx.record import read

    examine(case, any_observer=True, forked=True)
    run = read(record_dir(case, any_observer=True) / "record")
    names = {"loss": "loss/train", "val_loss": "loss/val", "grad_norm": "grad_norm", "lr": "lr"}
    table: dict[int, Row] = {}
    for column, name in names.items():
        signal = run.series(name)
        for step, value in zip(signal.steps.tolist(), signal.values.tolist(), strict=True):
            table.setdefault(step, {"step": float(step)})[column] = value
    return [table[s] for s in sorted(table)]


def _hooked(peer: str, case: Case) -> Said:
    """Run the program under the peer, in a fork of this process that sees the peer's folder."""
    with tempfile.TemporaryDirectory(prefix="clinic-") as scratch:
        script, out = Path(scratch) / f"{case.name}.py", Path(scratch) / "said.json"
        script.write_text(case.text, encoding="utf-8")

        def main() -> None:
            sys.path.insert(0, str(home(peer)))
            importlib.import_module("clinic.peer_driver").drive(peer, str(out), str(script))

        ended = in_fork(main, scratch)
        if not out.exists():
            raise RuntimeError((ended["stderr"].strip().splitlines() or [f"exit {ended['exit']}"])[-1])
        return [(a, b) for a, b in json.loads(out.read_text(encoding="utf-8"))]


def _in_its_home(peer: str, program: str, rows: Sequence[Row]) -> Said:
    """Run a few lines of the peer's own API on the rows, in an interpreter that sees its folder."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(list(rows)),
        env=environment() | {"PYTHONPATH": str(home(peer))},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    return [(str(a).lower(), str(b)) for a, b in json.loads(done.stdout.strip().splitlines()[-1])]


_PULSE = """
import json, sys
from trainpulse import Monitor
monitor = Monitor()
for row in json.load(sys.stdin):
    for column, name in (("loss", "loss"), ("grad_norm", "grad_norm"), ("lr", "learning_rate")):
        if column in row:
            monitor.log(name, int(row["step"]), row[column])
print(json.dumps(sorted({(a.severity.value, a.detector) for a in monitor.report().alerts})))
"""
_DOCTOR = """
import contextlib, io, json, sys
from training_doctor import Doctor
doctor = Doctor()
doctor.set_auto_print(False)
with contextlib.redirect_stdout(io.StringIO()):
    for row in json.load(sys.stdin):
        known = {k: row[k] for k in ("loss", "grad_norm", "lr") if k in row}
        if "val_loss" in row:
            known["eval_loss"] = row["val_loss"]
        doctor.log(step=int(row["step"]), **known)
print(json.dumps(sorted({(d.severity.value, d.detector_name) for d in doctor.diagnoses})))
"""


def _medic(case: Case) -> Said:
    rows = series(case)
    with tempfile.TemporaryDirectory(prefix="clinic-") as scratch:
        log = Path(scratch) / "metrics.csv"
        with log.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["step", "loss", "val_loss", "grad_norm", "lr"], restval="")
            writer.writeheader()
            writer.writerows(rows)
        env = environment() | {"PYTHONPATH": str(home("runmedic"))}
        command = [sys.executable, "-m", "runmedic", "diagnose", str(log), "--json"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    told = json.loads(done.stdout)
    runs = told if isinstance(told, list) else told.get("runs") or [told]
    return [(str(f.get("severity", "")), str(f.get("check", f.get("id", "")))) for r in runs for f in r.get("findings", [])]


PEERS: dict[str, Callable[[Case], Said]] = {
    "torchmortem": lambda case: _hooked("torchmortem", case),
    "torch-audit": lambda case: _hooked("torch-audit", case),
    "runmedic": _medic,
    "training-doctor": lambda case: _in_its_home("training-doctor", _DOCTOR, series(case)),
    "trainpulse": lambda case: _in_its_home("trainpulse", _PULSE, series(case)),
}


def about(peer: str, kind: str) -> tuple[str, ...] | None:
    """The conditions a finding of this kind could be about; None for advice."""
    for pattern, codes in SUBJECTS[peer].items():
        if fnmatch.fnmatch(kind.lower(), pattern.lower()):
            return codes
    return ()


def scored(peer: str, case: Case, said: Said) -> dict[str, Any]:
    """One line of the comparison: the kinds that count, and whether one of them is about the fault of the case."""
    kinds = sorted({kind for severity, kind in said if severity.lower() in LOUD and about(peer, kind) is not None})
    truth = {case.condition, *case.codes}
    right = any(fnmatch.fnmatch(code, p) for kind in kinds for p in about(peer, kind) or () for code in truth)
    return {"name": case.name, "key": case.key, "kind": case.kind, "said": kinds, "right": right and case.kind == "sick"}


def ordered() -> list[Case]:
    """The written cases in an order that is always the same, two sick ones to a healthy one: any beginning of it is a fair sample."""
    piles = {k: sorted((c for c in written() if c.kind == k), key=lambda c: c.name) for k in ("sick", "healthy")}
    for pile in piles.values():
        random.Random(0).shuffle(pile)
    out: list[Case] = []
    while piles["sick"] or piles["healthy"]:
        out += [piles[k].pop() for k in ("sick", "sick", "healthy") if piles[k]]
    return out


def run(peer: str, ask: score.Ask, seconds: float = float("inf")) -> dict[str, Any]:
    """Run the peer on the chosen cases, go on where an earlier run stopped, and merge it into the result file."""
    home(peer)
    log = WORK / "peers" / f"{peer}.jsonl"
    done = {x["key"]: x for x in _kept(log)}
    until = time.monotonic() + seconds
    chosen = score.choose(ordered(), score.Ask(only=ask.only))[: ask.sample]
    for n, case in enumerate(chosen, 1):
        if case.key in done or time.monotonic() > until:
            continue
        try:
            line = scored(peer, case, PEERS[peer](case))
        except Exception as why:  # a peer that breaks on a case is counted, not fatal
            line = {"name": case.name, "key": case.key, "kind": case.kind, "failed": f"{type(why).__name__}: {why}"[:200]}
        done[case.key] = line
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{peer} {n}/{len(chosen)} {case.name}: {line.get('said', line.get('failed'))}", file=sys.stderr, flush=True)
    lines = [done[c.key] for c in chosen if c.key in done]
    return {"peer": peer, "version": version(peer), **_told(lines)}


def _kept(log: Path) -> Iterator[dict[str, Any]]:
    for row in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        yield json.loads(row)


def _told(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sick = [x for x in lines if x["kind"] == "sick"]
    healthy = [x for x in lines if x["kind"] == "healthy"]
    return {
        "sick": len(sick),
        "right": sum(bool(x.get("right")) for x in sick),
        "any": sum(bool(x.get("said")) for x in sick),
        "healthy": len(healthy),
        "alarmed": sum(bool(x.get("said")) for x in healthy),
        "failed": sum("failed" in x for x in lines),
    }


def compare() -> dict[str, Any]:
    """Every tool on the cases it was run on, and ours on the same ones; written to clinic/results/peers.json and .md."""
    logs = {peer: {x["key"]: x for x in _kept(WORK / "peers" / f"{peer}.jsonl")} for peer in PEERS}
    cases = [c for c in ordered() if any(c.key in log for log in logs.values())]
    ours: dict[str, dict[str, Any]] = {}
    for case in cases:
        line = judge(case, examine(case, any_observer=True, forked=True))
        said = sorted({c for codes in line.get("alarms", {}).values() for c in codes})
        ours[case.key] = {"name": case.name, "kind": case.kind, "said": said, "right": bool(line.get("hit"))}
        if "error" in line:
            ours[case.key]["failed"] = line["error"]
    table: dict[str, Any] = {}
    for peer, log in logs.items():
        keys = [c.key for c in cases if c.key in log]
        if keys:
            reads = "the running program" if peer in HOOKED else "the curves of our record"
            told = _told([log[k] for k in keys])
            table[peer] = {"version": version(peer), "reads": reads, **told, "traindx": _told([ours[k] for k in keys])}
    said = {peer: {x["name"]: x.get("said", "failed") for x in log.values()} for peer, log in logs.items() if log}
    said["traindx"] = {x["name"]: x["said"] for x in ours.values()}
    body = {"schema": "traindx.clinic.peers/1", "tools": table, "said": said}
    OUT.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    OUT.with_suffix(".md").write_text(page(table), encoding="utf-8")
    return table


def page(table: dict[str, dict[str, Any]]) -> str:
    """The comparison as Markdown."""
    out = [
        "Other tools on written programs of the clinic: an arbitrary but fixed order of sick and odd-but-healthy ones, as far as each",
        "was run. A sick run counts as found when a warning or worse is about the right subject; what each kind of finding could be",
        "about is listed in `clinic/peers.py`, generously, while traindx has to name an accepted condition or cause. Readers of logs",
        "are given loss, validation loss, gradient norm and learning rate as traindx recorded them; tools that hook into the model run",
        "the program, attached at the first update (torch-audit looks at every twentieth step). Advice on speed and style is left out.",
        "A case a tool breaks on is not found. The cases are ours, and traindx was built with them in view: programs nobody here wrote",
        "may be kinder to the others.",
        "",
        "| tool | reads | sick found | traindx on the same | healthy with a warning | traindx on the same | broke on |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, x in table.items():
        t = x["traindx"]
        out.append(
            f"| {name} {x['version']} | {x['reads']} | {_share(x['right'], x['sick'])} | {_share(t['right'], t['sick'])} "
            f"| {_share(x['alarmed'], x['healthy'])} | {_share(t['alarmed'], t['healthy'])} | {x['failed']} |"
        )
    return "\n".join(out) + "\n"


def _share(k: int, n: int) -> str:
    return figures.percent(figures.rate([{"a": i < k} for i in range(n)], "a"))
