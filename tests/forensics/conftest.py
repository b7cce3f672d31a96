"""Runs a program as it is under a recorder with forensics armed."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from traindx.forensics.arm import arm
from traindx.probe import Probe
from traindx.probes.drive.recorder import Recorder
from traindx.probes.launch.attach import attach, detach
from traindx.probes.read.gradient.gradients import GradNorms

Program = Callable[..., Recorder]


@pytest.fixture
def observed(tmp_path: Path) -> Program:
    """Run the text of a program; gives the closed recorder."""

    def run(
        text: str,
        probes: list[Probe] | None = None,
        recorders: list[Recorder] | None = None,
        budget: float | None = None,
        fails: bool = False,
        **globals_: Any,
    ) -> Recorder:
        file = tmp_path / "program.py"
        file.write_text(text)
        recorder = Recorder(budget=budget, probes=[GradNorms()] if probes is None else probes)
        if recorders is not None:
            recorders.append(recorder)  # for programs that raise
        arm(recorder)
        observer = attach(recorder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runpy.run_path(str(file), init_globals=globals_)
        except BaseException as error:
            if fails:
                recorder.fails(error, {"type": type(error).__name__})
            raise
        finally:
            detach(observer)
            recorder.close()
        assert not [f for f in recorder.failures if f.probe in ("Witness", "forensics", "recorder", "GradNorms")]
        assert torch._C._len_torch_function_stack() == 0
        return recorder

    return run
