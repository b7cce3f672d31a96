"""REINFORCE with a baseline on a contextual bandit."""
import torch
from torch import nn
from torch.distributions import Categorical

SEED = 0
STEPS = 400
BATCH = 32
LR = 5e-3
BONUS = 0.03

torch.manual_seed(SEED)
payoff = torch.rand(6, 8)
policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 8))
opt = torch.optim.Adam(policy.parameters(), lr=LR)
baseline = 0.5
for step in range(STEPS):
    context = torch.randint(0, 6, (BATCH,))
    dist = Categorical(logits=policy(nn.functional.one_hot(context, 6).float()))
    arm = dist.sample()
    reward = payoff[context, arm] + 0.1 * torch.randn(BATCH)
    baseline = 0.95 * baseline + 0.05 * reward.mean().item()
    loss = -(dist.log_prob(arm) * (reward - baseline)).mean() - BONUS * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(step, round(reward.mean().item(), 3), round(dist.entropy().mean().item(), 3))
