"""REINFORCE on a ten-armed bandit with a contextual state; the policy freezes on its first lucky arm."""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(112)
CONTEXTS, ARMS = 5, 10
means = torch.rand(CONTEXTS, ARMS)
policy = nn.Sequential(nn.Linear(CONTEXTS, 32), nn.Tanh(), nn.Linear(32, ARMS))
opt = torch.optim.Adam(policy.parameters(), lr=0.15)
for step in range(700):
    ctx = torch.randint(0, CONTEXTS, (16,))
    dist = Categorical(logits=policy(nn.functional.one_hot(ctx, CONTEXTS).float()))
    arm = dist.sample()
    reward = means[ctx, arm] + 0.1 * torch.randn(16)
    loss = -(dist.log_prob(arm) * reward).mean() - 0.0 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 70 == 0:
        print(step, f"reward {reward.mean().item():.3f} entropy {dist.entropy().mean().item():.4f}")
