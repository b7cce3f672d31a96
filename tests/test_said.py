"""The lines of a log that are not losses: errors and warnings that name a condition."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from traindx import importers
from traindx.diagnosis import diagnose
from traindx.errors import NothingReadable
from traindx.rule import catalogue
from traindx.said import MESSAGES, said_in

TEXTS = {
    "RuntimeError: CUDA error: device-side assert triggered": "DATA003",
    "IndexError: Target 10 is out of bounds.": "DATA003",
    "IndexError: index out of range in self": "TUNE007",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity)": "PERF003",
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1234.0": "PERF003",
    "RuntimeError: DataLoader worker (pid 4012) is killed by signal: Bus error.": "PERF003",
    "[E ProcessGroupNCCL.cpp:828] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42)": "DIST005",
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.": "WIRE014",
    "UserWarning: Using a target size (torch.Size([64])) that is different to the input size (torch.Size([64, 1])).": "WIRE008",
    "Some weights of Bert were not initialized from the checkpoint and are newly initialized: ['classifier.bias']": "TUNE008",
    'Missing key(s) in state_dict: "module.conv1.weight"': "WIRE015",
    "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.": "WIRE010",
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation": "NUMR010",
    "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn": "WIRE003",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)": "WIRE007",
    "Loss is nan, stopping training": "NUMR001",
    "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.": "NUMR002",
    "Warning: NaN gradients detected, skipping step": "NUMR008",
    "ValueError: Attempting to unscale FP16 gradients.": "NUMR009",
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_pasted_message_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(text + "\n")
    [run] = importers.read(path)
    result = diagnose(run)
    named = [f for f in result.findings if f.code == TEXTS[text]]  # by the message, and as how the run ended
    assert named and all(f.fix for f in named) and result.verdict != "healthy"
    assert any(text[:40] in f.message for f in named)


@pytest.mark.parametrize(
    "line",
    [
        "step 100: loss 0.31, grad_norm 1.2, memory 3021MB",
        "Epoch 3: validation error 0.12, no nan seen so far",
        "Loading checkpoint shards: 100%",
        "INFO: using NCCL backend, timeout 1800 s",
        "skipping evaluation at step 0",
    ],
)
def test_ordinary_lines_say_nothing(line: str) -> None:
    assert said_in(line) is None


def test_every_message_belongs_to_a_rule_and_has_a_cure() -> None:
    assert all(m.code in catalogue() and m.fix and m.says for m in MESSAGES)


def test_a_message_inside_a_log_stands_at_its_step(tmp_path: Path) -> None:
    lines = [f"step {i}: loss {2 - i / 100:.3f}" for i in range(100)]
    lines.insert(40, "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.")
    (tmp_path / "a.log").write_text("\n".join(lines))
    [run] = importers.read(tmp_path / "a.log")
    [event] = run.events_of("said")
    assert event.step == 39


def test_a_text_without_losses_and_messages_is_still_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\nthis is a poem\n")
    with pytest.raises(NothingReadable):
        importers.read(tmp_path / "a.txt")


def test_a_notebook_is_a_log_and_names_its_cell(tmp_path: Path) -> None:
    printed = [f"epoch {i} train_loss {2 - i / 10:.2f} val_loss {2.1 - i / 10:.2f}\n" for i in range(12)]
    broken = {"output_type": "error", "ename": "IndexError", "evalue": "Target 10 is out of bounds.", "traceback": []}
    cells = [
        {"cell_type": "markdown", "source": ["loss: 3"]},
        {"cell_type": "code", "source": [], "outputs": [{"output_type": "stream", "text": printed}]},
        {"cell_type": "code", "source": [], "outputs": [broken]},
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}))
    trained, failed = importers.read(path)
    assert trained.source.endswith("cell 2") and len(trained["loss/val"]) == 12
    assert failed.source.endswith("cell 3") and failed.events_of("said")


def test_a_log_can_be_piped_without_a_dash() -> None:
    text = "".join(f"step {i}: loss {2 - i / 100:.3f}\n" for i in range(100))
    done = subprocess.run(
        [sys.executable, "-m", "traindx", "diagnose"], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "stdin" in done.stdout, done.stderr
    none = subprocess.run(
        [sys.executable, "-m", "traindx", "diagnose"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert none.returncode == 2
