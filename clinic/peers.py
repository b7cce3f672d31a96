"""The same cases through other tools, each installed in a folder of its own under clinic/work/peers/.

Readers of logs are handed the series of our own kept record (loss, validation loss, gradient norm, learning rate); tools
that hook into the model run the program themselves (`peer_driver.py`). A peer names no causes of ours, so what is counted
is: does it raise a kind of finding on a sick run that it never raises on a healthy one, and on how many healthy runs does
it alarm at all.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clinic import score
from clinic.case import WORK, Case
from clinic.patient import ROOT, TIMEOUT_S, environment, examine, record_dir

Row = dict[str, float]
Said = list[tuple[str, str]]  # (severity, kind)


def home(peer: str) -> Path:
    """Where the peer is installed; installs it there on first use."""
    folder = WORK / "peers" / peer
    if not folder.exists():
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), peer]
        subprocess.run(command, check=True)
    return folder


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
    env = environment() | {"PYTHONPATH": os.pathsep.join([str(home(peer)), str(ROOT)])}
    with tempfile.TemporaryDirectory(prefix="clinic-") as scratch:
        script, out = Path(scratch) / f"{case.name}.py", Path(scratch) / "said.json"
        script.write_text(case.text, encoding="utf-8")
        command = [sys.executable, "-m", "clinic.peer_driver", peer, str(out), str(script)]
        subprocess.run(command, cwd=scratch, env=env, capture_output=True, timeout=2 * TIMEOUT_S)
        return [(a, b) for a, b in json.loads(out.read_text(encoding="utf-8"))] if out.exists() else []


def _in_its_home(peer: str, program: str, rows: Sequence[Row]) -> Said:
    """Run a few lines of the peer's own API on the rows, in an interpreter that sees its folder."""
    env = environment() | {"PYTHONPATH": str(home(peer))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(list(rows)),
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError(f"{peer}: {done.stderr.strip()[-300:]}")
    return [(str(a).lower(), str(b)) for a, b in json.loads(done.stdout.strip().splitlines()[-1])]


_PULSE = """
import json, sys
from trainpulse import Monitor
monitor = Monitor()
for row in json.load(sys.stdin):
    for column, name in (("loss", "loss"), ("grad_norm", "grad_norm"), ("lr", "learning_rate")):
        if column in row:
            monitor.log(name, int(row["step"]), row[column])
alerts = monitor.report().alerts
name = lambda a: str(getattr(a, "alert_type", getattr(a, "type", "alert")))
print(json.dumps(sorted({(str(getattr(a, "severity", "warning")).rpartition(".")[2], name(a)) for a in alerts})))
"""
_DOCTOR = """
import contextlib, io, json, sys
from training_doctor import Doctor
doctor = Doctor()
doctor.set_auto_print(False)
with contextlib.redirect_stdout(io.StringIO()):
    for row in json.load(sys.stdin):
        known = {k: v for k, v in (("loss", row.get("loss")), ("grad_norm", row.get("grad_norm")), ("lr", row.get("lr"))) if v is not None}
        if known:
            doctor.log(step=int(row["step"]), **known)
        if "val_loss" in row:
            doctor.log(step=int(row["step"]), eval_loss=row["val_loss"])
    found = [*doctor.diagnoses, *doctor.analyze()]
kind = lambda d: str(getattr(d, "title", getattr(d, "name", d)))[:60]
print(json.dumps(sorted({(str(getattr(d, "severity", "warning")).rpartition(".")[2], kind(d)) for d in found})))
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
_LOUD = {"warning", "warn", "critical", "error", "high", "severe", "fatal"}


def run(peer: str, ask: score.Ask) -> dict[str, Any]:
    """How a peer fares on the chosen cases: kinds it raises on healthy runs, and sick runs flagged beyond those."""
    home(peer)
    said: list[tuple[Case, set[str]]] = []
    failed: list[str] = []
    for case in score.choose(score.all_cases(), ask):
        try:
            said.append((case, {kind for severity, kind in PEERS[peer](case) if severity.lower() in _LOUD}))
        except Exception as why:  # a peer that breaks on a case is counted, not fatal
            failed.append(f"{case.name}: {why}"[:200])
    usual = {kind for case, kinds in said if case.kind == "healthy" for kind in kinds}
    sick = [(c, kinds - usual) for c, kinds in said if c.kind == "sick"]
    healthy = [kinds for c, kinds in said if c.kind == "healthy"]
    return {
        "peer": peer,
        "sick": len(sick),
        "flagged": sum(bool(kinds) for _, kinds in sick),
        "healthy": len(healthy),
        "alarmed": sum(bool(kinds) for kinds in healthy),
        "usual": sorted(usual),
        "by_case": {c.name: sorted(kinds) for c, kinds in sick if kinds},
        "failed": failed,
    }
