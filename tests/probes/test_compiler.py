"""The compiler's tables are made of torch as it is, even when an optimizer has made it load while we look on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from traindx import record

SCRIPT = """
import torch
from torch import nn
from traindx.probes.launch.attach import attach, detach
from traindx.probes.drive.recorder import Recorder

recorder = Recorder(probes=[])
observer = attach(recorder)
model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(2, 3)).sum().backward()
optimizer.step()
print(torch.compile(model, backend="eager")(torch.ones(2, 3)).shape)
detach(observer)
recorder.close()
"""


def test_a_model_compiles_after_an_optimizer_has_stepped():  # a process of its own: the compiler loads once in each
    done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (0, "torch.Size([2, 3])\n"), done.stderr[-2000:]


RECOMPILED = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
fast = torch.compile(model, backend="eager", dynamic=False)
torch._dynamo.config.recompile_limit = 64
for step in range(90):
    size = 2 + step // 5 if CHANGING else 2
    optimizer.zero_grad()
    fast(torch.ones(size, 3)).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("changing", "told"), [(True, True), (False, False)])
def test_recompilations_are_counted_whatever_the_backend(changing, told, tmp_path):
    (tmp_path / "train.py").write_text(RECOMPILED.replace("CHANGING", str(changing)))
    command = [sys.executable, "-m", "traindx", "run", "--budget", "none", "--dir", "rec", "train.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=tmp_path)
    assert done.returncode == 0 and ("PERF006" in done.stderr) is told, done.stderr[-2000:]
    assert record.read(tmp_path / "rec").series("recompiles").last == (18 if changing else 1)
