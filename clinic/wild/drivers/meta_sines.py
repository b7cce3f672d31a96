"""Model-agnostic meta-learning of sine waves with higher: every task has its own targets for the same inputs."""

import higher
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
outer, inner = torch.optim.Adam(model.parameters(), 1e-3), torch.optim.SGD(model.parameters(), 0.01)
for step in range(120):
    outer.zero_grad()
    total = 0.0
    for _ in range(4):
        height, shift = 0.5 + 4 * torch.rand(1), 3 * torch.rand(1)
        seen, asked = 10 * torch.rand(10, 1) - 5, 10 * torch.rand(10, 1) - 5
        with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, differ):
            for _ in range(2):
                differ.step(nn.functional.mse_loss(fast(seen), height * torch.sin(seen + shift)))
            loss = nn.functional.mse_loss(fast(asked), height * torch.sin(asked + shift))
            total += loss.item() / 4
            loss.backward()
    outer.step()
    if step % 10 == 0:
        print(f"step {step} loss {total:.4f}")
