"""A policy gradient loop whose loss is a hand-made sum, with autograd.grad for an extra penalty."""

import torch
from torch import nn

torch.manual_seed(18)
policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
for episode in range(12):
    state, logs, rewards = torch.zeros(2), [], []
    for _ in range(6):
        dist = torch.distributions.Categorical(logits=policy(state))
        action = dist.sample()
        logs.append(dist.log_prob(action))
        rewards.append(float(action))
        state = state + (action * 2 - 1) * 0.1
    x = torch.randn(4, 2, requires_grad=True)
    (g,) = torch.autograd.grad(policy(x).sum(), x, create_graph=True)
    loss = -(torch.stack(logs) * torch.tensor(rewards)).sum() + 0.01 * (g.norm(dim=1) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(episode, repr(loss.item()), sum(rewards))
