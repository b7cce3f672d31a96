"""The process a script runs in while it is captured: its first steps are watched, then the experiment is made on a copy.

Not for users: `traindx check train.py` and `traindx trial NAME train.py` start it (`capture/start.py`).
The script's own checkpoints are not written meanwhile, and it never reaches its end: nothing of the user's is overwritten.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from traindx.capture.shelf import Shelf
from traindx.capture.start import ASKED, SAID
from traindx.probes.launch import script_runner
from traindx.report.json import plain

SECONDS = 60.0  # longest look at the script's own steps
LEAST = 3


class Job:
    """What was asked, and where the answer goes."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.done = False

    def answer(self, **said: Any) -> None:
        """Write the answer whole or not at all."""
        place = Path(self.asked["answer"])
        part = place.with_suffix(".part")
        part.write_text(json.dumps(plain(said)), encoding="utf-8")
        part.replace(place)
        self.done = True

    def told(self, done: int, total: int, what: str) -> None:
        """Progress, a line each, to whoever started us."""
        self._line(f"{done}\t{total}\t{what}")

    def say(self, text: str) -> None:
        """A remark that is worth a line."""
        self._line(f"{SAID}\t{text}")

    def agreed(self, text: str, seconds: float) -> bool:
        """Ask whoever started us whether to begin."""
        self._line(f"{ASKED}\t{seconds}\t{text}")
        return os.read(self.asked["reply"], 1) != b"n"

    def _line(self, text: str) -> None:
        try:
            os.write(self.asked["pipe"], f"{text}\n".encode())
        except OSError:
            os._exit(1)  # nobody listens any more: whoever asked is gone, and the script must not run on alone


class Session:
    """One captured script: watched from its start, ended after enough steps."""

    def __init__(self, job: Job, script: str) -> None:
        self.job, self.script = job, script
        self.steps = 0
        self.began = time.monotonic()
        self.start = 0.0  # seconds to the first update
        self.pace = 0.0  # seconds an update takes
        self.recorder: Any = None  # what the capture hears from
        self.watching: Any = None  # what the rules read

    def attach(self) -> None:
        """Watch from now on."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from traindx.capture.capturer import Capturer
        from traindx.probes.drive.recorder import Recorder
        from traindx.probes.launch.attach import attach

        self.shelf = Shelf(torch.save, torch.load)  # a trial must not overwrite the user's checkpoints; under our own patch
        torch.save, torch.load = self.shelf.save, self.shelf.load
        what = self.job.asked["what"]
        self.recorder = Recorder(budget=None, probes=[])  # every step in full, and only the capture
        late = what == "investigate" or bool(self.job.asked.get("now"))
        self.capturer = Capturer(busy=lambda: bool(self.recorder.busy), rolling=late)
        self.recorder.add(self.capturer)
        self.observers = [attach(self.recorder)]
        if what != "trial":
            self.watching = Recorder(budget=None if what == "check" else 0.2)
            self.observers.append(attach(self.watching))
        register_optimizer_step_post_hook(self._stepped)
        self.recorder.on_step.append(self._by_hand)

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.recorder.scene.optimizer not in (None, optimizer):
            return
        self.steps += 1
        self.start = self.start or time.monotonic() - self.began
        self.pace = (time.monotonic() - self.began - self.start) / max(self.steps - 1, 1)
        wanted = self.job.asked["steps"]
        self.job.told(min(self.steps, wanted), wanted, self._doing(wanted))
        spent = time.monotonic() - self.began
        late = spent > self.job.asked.get("seconds", SECONDS) and self.steps >= LEAST
        if self._hopeless():
            self.finish()
        enough = self.steps >= wanted and (self.capturer.evaluations > 0 or spent > self.job.asked.get("patience", 0.0))
        if enough or late:
            self.finish()

    def _by_hand(self, step: int, row: Any) -> None:
        """An update without an optimizer is over."""
        if self.recorder.scene.optimizer is None:
            self.capturer.why = self.capturer.why or "the script changes its weights by hand, without an optimizer"
            self._stepped(None, (), {})

    def _hopeless(self) -> bool:
        """A trial needs steps that can be made again; here is none, and there will be none."""
        return self.job.asked["what"] == "trial" and self.steps >= LEAST and bool(self.capturer.why) and not self.capturer.steps

    def _doing(self, wanted: int) -> str:
        waits = ", waiting for its validation" if self.steps > wanted else ""
        return f"step {self.steps} of {self.script}{waits}"

    def finish(self) -> None:
        """Enough was seen: do what was asked, and leave without a trace."""
        code = 0
        try:
            self._work()
        except BaseException as error:  # whatever it is, the starter is waiting for an answer
            from traindx.errors import TraindxError
            from traindx.trials.faults import located

            told = str(error) if isinstance(error, TraindxError) else located(error)
            self.job.answer(error=told, known=isinstance(error, TraindxError), exit=getattr(error, "exit_code", 70))
            code = 1
        self.shelf.clear()
        os._exit(code)

    def _work(self) -> None:
        import torch

        from traindx.capture import jobs
        from traindx.forensics.recipe import CannotCapture
        from traindx.probes.launch.attach import detach
        from traindx.run import Run

        for observer in self.observers:
            detach(observer)
            observer.recorder.close("closed")
        run = self.watching.sink.run() if self.watching is not None else Run()
        with torch.enable_grad():
            name = Path(self.script).name
            try:
                task, why = self.capturer.task(name, now=bool(self.job.asked.get("now"))), ""
            except CannotCapture as reason:
                task, why = None, str(reason)
            if self.job.asked["what"] == "investigate":
                at = (lambda now: self.capturer.task(name, now)) if task is not None else None
                self.job.answer(**jobs.investigation(self.job.asked, at, why, run, self.job.told))
            else:
                answer = jobs.work(self.job.asked, task, why, run, self.job.told, self.job.say, self.job.agreed)
                blind = {"why": why, "start": self.start, "pace": self.pace} if task is None else None
                self.job.answer(**answer, blind=blind)


def main(argv: list[str]) -> None:
    """Run the script up to its first steps, then the job."""
    job = Job(json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    if job.asked["what"] == "drive":
        _drive(job, argv[1], argv[2:])
    session = Session(job, argv[1])
    session.attach()
    ended = script_runner.run_script(argv[1], argv[2:])
    if ended.error is not None:
        from traindx.trials.faults import located

        job.answer(failed=located(ended.error), steps=session.steps)
    elif session.steps >= LEAST:
        session.finish()  # a short script: what it did is all there is
    else:
        job.answer(ended=ended.code, steps=session.steps)
    session.shelf.clear()
    os._exit(0)


def _drive(job: Job, script: str, args: list[str]) -> None:
    """Run the script along a course, to its end or the script's."""
    from traindx.capture.wheel import Wheel

    wheel = Wheel(job, script)
    wheel.attach()
    ended = script_runner.run_script(script, args)
    told = ""
    if ended.error is not None:
        from traindx.trials.faults import located

        told = located(ended.error)
    wheel.finish(told)


if __name__ == "__main__":
    main(sys.argv[1:])
