"""bfloat16 autocast on the CPU, with a disabled and then an enabled GradScaler."""

import torch
from torch import nn

torch.manual_seed(14)
model = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for enabled in (False, True):
    scaler = torch.amp.GradScaler("cpu", enabled=enabled, init_scale=1024.0)
    for step in range(10):
        x = torch.randn(24, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(enabled, step, repr(loss.item()), scaler.get_scale())
