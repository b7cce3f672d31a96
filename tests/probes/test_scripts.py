"""Twenty and more unmodified scripts: the same output and exit code under plain python and under `traindx run`."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from traindx import record

SCRIPTS = Path(__file__).parent / "scripts"
NAMES = sorted(p.stem for p in SCRIPTS.glob("*.py"))
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "COLUMNS": "100"}


def plain(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = SCRIPTS / f"{name}.py"
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=ENV, cwd=folder, timeout=900, check=False
    )


def observed(name: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPTS / f"{name}.py"
    words = [sys.executable, "-m", "traindx", "run", "--dir", str(folder / "record"), *options, str(script)]
    return subprocess.run(words, capture_output=True, text=True, env=ENV, cwd=folder, timeout=900, check=False)


@pytest.mark.parametrize("name", NAMES)
def test_output_and_exit_code_are_those_of_plain_python(name, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        a, b = pool.submit(plain, name, tmp_path), pool.submit(observed, name, tmp_path)
        bare, watched = a.result(), b.result()
    assert watched.stdout == bare.stdout
    assert watched.returncode == bare.returncode
    assert bare.stderr in watched.stderr  # the same traceback, then our page
    if name != "invisible":
        check(name, record.read(tmp_path / "record"))


def check(name: str, run) -> None:
    """What the record must hold, script by script."""
    assert not run.events_of("sensor_off", "traindx_off"), run.events_of("sensor_off", "traindx_off")
    losses = run.series("loss/train")
    assert len(losses) == STEPS[name], (name, len(losses))
    assert run.fact("ended") == ENDED.get(name, "closed")
    if name in VALIDATIONS:
        assert len(run.series("loss/val")) == VALIDATIONS[name], (name, run.series("loss/val"), run.fact("blind"))


STEPS = {
    "plain_functions": 18, "trainer_class": 30, "lbfgs_closure": 8, "manual_sgd": 25, "manual_functional": 15,
    "accumulation": 12, "gan": 20, "handwritten_loss": 32, "eval_in_train_mode": 32, "workers": 8, "crash_at_step_3": 3,
    "crash_at_step_0": 0,
    "exits_early": 9, "rnn_lstm": 15, "tiny_gpt": 30, "cnn_inplace": 12, "autocast_bf16": 20, "checkpointing": 16,
    "vae_two_terms": 18, "teacher_student_ema": 20, "rl_reinforce": 12, "goes_nan": 20, "threads_and_warnings": 6,
}  # fmt: skip
ENDED = {"crash_at_step_0": "exception", "crash_at_step_3": "exception", "exits_early": "exit"}
VALIDATIONS = {
    "plain_functions": 3,
    "handwritten_loss": 4,
    "eval_in_train_mode": 4,
    "tiny_gpt": 3,
    "vae_two_terms": 3,
    "teacher_student_ema": 4,
}
