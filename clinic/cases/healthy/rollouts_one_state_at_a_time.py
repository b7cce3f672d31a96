"""REINFORCE on a corridor of nine places, one state per call."""
import random

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(245)
random.seed(245)
PLACES = 9
policy = nn.Sequential(nn.Linear(PLACES, 32), nn.Tanh(), nn.Linear(32, 2))
opt = torch.optim.Adam(policy.parameters(), lr=5e-3)


def seen(place):
    return nn.functional.one_hot(torch.tensor(place), PLACES).float()


for update in range(60):
    scores, returns, total = [], [], 0.0
    for _ in range(4):
        place, rewards = random.randrange(PLACES - 1), []
        while len(rewards) < 20 and place < PLACES - 1:
            choice = Categorical(logits=policy(seen(place)))
            action = choice.sample()
            scores.append(choice.log_prob(action))
            place = max(0, place + (1 if action.item() else -1))
            rewards.append(1.0 if place == PLACES - 1 else -0.05)
        total += sum(rewards)
        back, later = [], 0.0
        for r in reversed(rewards):
            later = r + 0.97 * later
            back.insert(0, later)
        returns += back
    gain = torch.tensor(returns)
    gain = (gain - gain.mean()) / (gain.std() + 1e-6)
    loss = -(torch.stack(scores) * gain).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if update % 10 == 0:
        print(update, total / 4)
