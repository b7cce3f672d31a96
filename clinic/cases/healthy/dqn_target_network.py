"""Q-learning on a ring world with a replay buffer and a target network."""
import copy
import random

import torch
from torch import nn

random.seed(253)
torch.manual_seed(253)
N = 7
q = nn.Sequential(nn.Linear(N, 32), nn.ReLU(), nn.Linear(32, 2))
target = copy.deepcopy(q)
opt = torch.optim.Adam(q.parameters(), lr=2e-3)
buffer, state = [], 0
one_hot = torch.eye(N)
for step in range(900):
    eps = max(0.1, 1 - step / 400)
    with torch.no_grad():
        action = random.randrange(2) if random.random() < eps else int(q(one_hot[state]).argmax())
    nxt = (state + (1 if action else -1)) % N
    buffer.append((state, action, 1.0 if nxt == N // 2 else 0.0, nxt))
    buffer = buffer[-500:]
    state = 0 if nxt == N // 2 else nxt
    if len(buffer) < 64:
        continue
    s, a, r, n = map(torch.tensor, zip(*random.sample(buffer, 32)))
    with torch.no_grad():
        goal = r + 0.9 * target(one_hot[n]).amax(1) * (r == 0)
    pred = q(one_hot[s]).gather(1, a[:, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(pred, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        target.load_state_dict(q.state_dict())
    if step % 90 == 0:
        print(step, round(loss.item(), 5), round(pred.mean().item(), 3))
