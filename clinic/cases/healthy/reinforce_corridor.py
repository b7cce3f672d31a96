"""REINFORCE with a baseline: walk a corridor to the right end."""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(204)
LENGTH, BATCH, HORIZON = 8, 16, 14
policy = nn.Sequential(nn.Linear(LENGTH, 32), nn.Tanh(), nn.Linear(32, 2))
value = nn.Sequential(nn.Linear(LENGTH, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=4e-3)


def rollout():
    pos = torch.zeros(BATCH, dtype=torch.long)
    logps, ents, vals, rewards = [], [], [], []
    for _ in range(HORIZON):
        state = nn.functional.one_hot(pos, LENGTH).float()
        dist = Categorical(logits=policy(state))
        a = dist.sample()
        logps.append(dist.log_prob(a))
        ents.append(dist.entropy())
        vals.append(value(state).squeeze(1))
        pos = (pos + 2 * a - 1).clamp(0, LENGTH - 1)
        rewards.append((pos == LENGTH - 1).float() - 0.05)
    ret, returns = torch.zeros(BATCH), []
    for r in reversed(rewards):
        ret = r + 0.97 * ret
        returns.insert(0, ret)
    return torch.stack(logps), torch.stack(ents), torch.stack(vals), torch.stack(returns), torch.stack(rewards).sum(0).mean()


for update in range(250):
    logp, ent, val, ret, score = rollout()
    advantage = (ret - val).detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    loss = -(logp * advantage).mean() + 0.5 * nn.functional.mse_loss(val, ret) - 0.02 * ent.mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    opt.step()
    if update % 25 == 0:
        print(update, f"loss {loss.item():.3f} return {score.item():.3f} entropy {ent.mean().item():.3f}")
