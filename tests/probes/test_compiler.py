"""The compiler's tables are made of torch as it is, even when an optimizer has made it load while we look on."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import torch
from torch import nn
from traindx.probes.attach import attach, detach
from traindx.probes.recorder import Recorder

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
    done = subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "torch.Size([2, 3])\n"), done.stderr[-2000:]
