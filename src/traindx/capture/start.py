"""Starts a script in a child process and waits for what was asked about it."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from traindx.children import ours
from traindx.errors import NO_TORCH, EnvironmentFault, UsageError
from traindx.run import Run
from traindx.trial import Declined, Progress, Result, catalogue, silent, span

SAID, ASKED = "said", "asked"  # begin lines of the child's that are no progress: a remark, and a question with its cost
SAFE = "each in a process of its own, without its checkpoints; Ctrl-C ends it"
START_S = 3.0  # what a process takes until the script begins
Agreed = Callable[[str, float], bool]  # asked with a sentence and its seconds, whether to begin
WAIT_S = 10.0  # how long a trial that judges by validation data waits for the script to evaluate
LOOK_S = 15.0  # how long a script is watched for its batches
PATIENCE_S = {"quick": 6.0, "usual": 25.0, "full": 55.0}  # how long an evaluation is waited for, from the start on
STEPS = {"trial": 160, "check": 60}  # of the script's own that are watched; their batches are what experiments work with


def always(text: str, seconds: float) -> bool:
    """Whatever it costs."""
    return True


def is_script(target: str) -> bool:
    """Whether a target is a plain script, not file.py:factory."""
    return target.endswith(".py")


def trial_on(
    script: str,
    args: Sequence[str],
    name: str,
    limits: dict[str, Any],
    progress: Progress = silent,
    at: int = 0,
    say: Callable[[str], None] = lambda text: None,
    agreed: Agreed = always,
    record: Path | None = None,
) -> Result:
    """One experiment on a script that is not changed for it, before its first update or after `at` of them.

    A script whose loss cannot be called is driven in its own loop where the experiment allows it. `agreed` is asked once
    with what it will take, `record` is where what happens is recorded.
    """
    from traindx.capture.jobs import result_from

    asked = {"what": "trial", "trial": name, "limits": limits, "steps": at or STEPS["trial"], "now": at > 0}
    asked |= {"patience": WAIT_S if catalogue()[name].wants == "val" and not at else 0.0}
    asked |= {"seconds": 3600.0 if at else LOOK_S, "record": str(record.resolve()) if record else ""}
    answer = _ask(script, args, asked, progress, say, agreed)
    if "failed" in answer:
        raise UsageError(f"the script fails before the experiment can begin: {answer['failed']}")
    if answer.get("blind") and not at:
        return _driven(script, args, name, limits, answer["blind"], progress, say, agreed, record)
    return result_from(answer["result"])


def _driven(
    script: str,
    args: Sequence[str],
    name: str,
    limits: dict[str, Any],
    blind: dict[str, Any],
    progress: Progress,
    say: Callable[[str], None],
    agreed: Agreed,
    record: Path | None,
) -> Result:
    """The experiment in the script's own loop, where it can be made there."""
    from traindx.capture import driven
    from traindx.capture.jobs import unseen

    if name not in driven.DRIVABLE:
        return unseen(name, blind["why"], tuple(driven.DRIVABLE))
    rides, steps = driven.cost(name, limits)
    seconds = rides * (START_S + float(blind["start"])) + steps * float(blind["pace"])
    say(f"the loss cannot be called, so the script's own loop is driven instead: {blind['why']}")
    runs = "one run" if rides == 1 else f"{rides} runs"
    said = f"{name} takes at most {runs} of the script, {steps} steps in all, {span(seconds)}; {SAFE}"
    say(said)
    if not agreed(said, seconds):
        raise Declined
    began = time.monotonic()
    found = driven.trial(name, driven.Trip(_driver(script, args, progress, record)), limits)
    return replace(found, seconds=time.monotonic() - began)


def _driver(script: str, args: Sequence[str], progress: Progress, record: Path | None) -> Callable[[dict[str, Any]], Any]:
    """What drives the script along a course and reads the record of it."""
    from traindx import record as records
    from traindx.capture.driven import ride_from
    from traindx.capture.wheel import Course

    count = itertools.count(1)

    def drive(course: dict[str, Any]) -> Any:
        fields = {k: v for k, v in course.items() if k != "again"}
        with tempfile.TemporaryDirectory(prefix="traindx-") as folder:
            place = (record or Path(folder)) / f"ride-{next(count)}"
            asked = {"what": "drive", "course": asdict(Course(**fields)), "record": str(place.resolve())}
            told = _ask(script, args, asked, progress)["drive"]
            run = records.read(place) if place.exists() else Run()
            return ride_from(told, run, place if record else None)

    return drive


def investigate_on(
    target: str, args: Sequence[str], path: str, *, minutes: float, complaint: str = "", progress: Progress = silent
) -> dict[str, Any]:
    """`diagnose --investigate`: experiments on a script or a factory's task until the complaint of the run is settled."""
    if is_script(target):
        asked = {"what": "investigate", "path": str(Path(path).resolve()) if path else "", "minutes": minutes * 0.6}
        limits = {"steps": 10**9, "seconds": 60 * minutes * 0.4, "complaint": complaint}
        answer = _ask(target, args, {**asked, **limits}, progress)
        if "failed" in answer:
            raise UsageError(f"the script fails before anything can be tried: {answer['failed']}")
        found: dict[str, Any] = answer["investigation"]
        return found
    from traindx import api
    from traindx.capture.jobs import investigation_as_data
    from traindx.diagnosis import diagnose
    from traindx.report.json import plain
    from traindx.trials.investigate import investigate
    from traindx.trials.rehearsal import rehearse
    from traindx.trials.target import task_from

    task = task_from(target)
    run = api.load(Path(path))[0] if path else rehearse(task, steps=200, progress=progress)
    done = investigate(lambda now: task, diagnose(run), minutes=minutes, complaint=complaint, progress=progress)
    told: dict[str, Any] = plain(investigation_as_data(done))
    return told


def check_on(
    script: str, args: Sequence[str] = (), *, level: str = "usual", progress: Progress = silent, fresh: bool = False
) -> Any:
    """The pre-flight on a script that is not changed for it."""
    from traindx.trials.check import Checked, Item, answered, not_a_step

    asked = {"what": "check", "level": level, "fresh": fresh, "steps": STEPS["check"], "patience": PATIENCE_S[level]}
    began = time.monotonic()
    answer = _ask(script, args, asked, progress)
    if "failed" in answer:
        return not_a_step(answer["failed"], level)
    told = answer["checked"]
    items = [Item(**{**i, "lists": tuple(i["lists"])}) for i in told["items"]]
    if answer.get("blind"):
        from traindx.capture import driven

        trip = driven.Trip(_driver(script, args, progress, None))
        items = answered(items, level, lambda name, limits: driven.trial(name, trip, limits), driven.DRIVABLE)
    return Checked(
        tuple(items),
        Run(),
        time.monotonic() - began,
        tuple(told["modules"]),
        told["sheet"],
    )


def _ask(
    script: str,
    args: Sequence[str],
    asked: dict[str, Any],
    progress: Progress,
    say: Callable[[str], None] = lambda text: None,
    agreed: Agreed = always,
) -> dict[str, Any]:
    if not Path(script).is_file():
        raise UsageError(f"there is no script {script}")
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError(NO_TORCH, name="torch")  # told here, not in the last words of a child
    with tempfile.TemporaryDirectory(prefix="traindx-") as folder:
        read, write = os.pipe()
        hear, reply = os.pipe()
        place = Path(folder) / "answer.json"
        job = Path(folder) / "job.json"
        job.write_text(json.dumps({**asked, "answer": str(place), "pipe": write, "reply": hear}), encoding="utf-8")
        log = Path(folder) / "output.txt"
        with log.open("wb") as output:
            child = subprocess.Popen(
                ours("traindx.capture.child", str(job), script, *args),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(write, hear),
                start_new_session=True,
                env={**os.environ, "WANDB_MODE": "disabled", "TRAINDX_DISABLE": ""},
            )
        os.close(write)
        os.close(hear)
        try:
            _listen(read, progress, say, lambda text, cost: os.write(reply, b"y" if agreed(text, cost) else b"n"))
            child.wait()
        finally:
            os.close(read)
            os.close(reply)
            if child.poll() is None:  # interrupted: the script and whatever it started go with it
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if not place.exists():
            raise EnvironmentFault(f"the script's process ended with {child.returncode} and no answer. {_tail(log)}")
        answer: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return _usable(answer, script)


def _usable(answer: dict[str, Any], script: str) -> dict[str, Any]:
    if "error" in answer:
        raise (UsageError if answer["known"] and answer["exit"] == 2 else EnvironmentFault)(str(answer["error"]))
    if answer.get("declined"):
        raise Declined
    if "ended" in answer:
        seen = f"{answer['steps']} optimizer step{'s' * (answer['steps'] != 1)}"
        raise UsageError(f"{script} ended after {seen}: nothing to experiment on (arguments for it go after `--`)")
    return answer


def _listen(read: int, progress: Progress, say: Callable[[str], None], ask: Callable[[str, float], Any]) -> None:
    """Pass on progress and remarks until the child closes its end."""
    rest = b""
    while True:
        ready, _, _ = select.select([read], [], [], 1.0)
        if not ready:
            continue
        chunk = os.read(read, 1 << 16)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            done, _, tail = line.decode("utf-8", "replace").partition("\t")
            total, _, what = tail.partition("\t")
            if done == SAID:
                say(tail)
            elif done == ASKED:
                ask(what, float(total))
            elif done.isdigit() and total.isdigit():
                progress(int(done), int(total), what)


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
    return "Its last words: " + " | ".join(lines) if lines else "It said nothing."
