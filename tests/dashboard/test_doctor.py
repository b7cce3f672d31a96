"""The doctor judges in a process of its own, and nobody waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import psutil

from patience import until
from runs import learning
from traindx.dashboard.doctor import Answer, Doctor
from traindx.record import Writer


def told(doctor: Doctor, key: str) -> Answer | None:
    until(lambda: doctor.answer(key) is not None)
    return doctor.answer(key)


def test_a_sick_run_and_a_place_without_one_are_judged_apart(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", name="run")
    for step, loss in enumerate(np.r_[learning(300), np.geomspace(0.4, 80, 200)]):
        writer.write(step, {"loss/train": float(loss)})
    writer.close()
    doctor = Doctor()
    doctor.ask("sick", tmp_path / "run", 0, "1")
    doctor.ask("none", tmp_path / "nothing", 0, "1")
    sick, none = told(doctor, "sick"), told(doctor, "none")
    assert sick is not None and none is not None
    assert sick.health["severity"] == "critical" and sick.health["finding"]["code"] == "LOSS001"
    assert none.report is None and none.health["summary"] == "cannot be read"
    [child, *_] = doctor._children
    assert child is not None
    doctor.close()
    assert child.wait(10) is not None


def test_the_judging_process_leaves_with_its_server_although_its_pipe_stays_open() -> None:
    reads, writes = os.pipe()
    server = textwrap.dedent("""
        import os, subprocess, sys, time
        command = [sys.executable, "-m", "traindx.dashboard.doctor", str(os.getpid())]
        print(subprocess.Popen(command, stdin=int(sys.argv[1])).pid, flush=True)
        time.sleep(60)
    """)
    command = [sys.executable, "-c", server, str(reads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=(reads,)) as process:
        assert process.stdout is not None
        doctor = psutil.Process(int(process.stdout.readline()))
        assert doctor.is_running()
        process.kill()
    doctor.wait(timeout=30)
    os.close(reads)
    os.close(writes)
