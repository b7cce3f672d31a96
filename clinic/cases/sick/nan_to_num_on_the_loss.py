"""Poisson regression of event counts with a defensive line."""
import torch
import torch.nn as nn

torch.manual_seed(16)
x = torch.randn(2000, 6)
rate = torch.exp(0.5 * x[:, 0] - 0.3 * x[:, 1] * x[:, 2] + 0.4)
counts = torch.poisson(rate)
exposure = torch.rand(2000) * 2
exposure[torch.randperm(2000)[:25]] = 0.0

model = nn.Sequential(nn.Linear(6, 24), nn.Softplus(), nn.Linear(24, 1))
opt = torch.optim.Adam(model.parameters(), lr=3e-3)


def nll(log_rate, k, t):
    return (torch.exp(log_rate) - k / t * log_rate).mean()


for epoch in range(15):
    model.train()
    for ids in torch.randperm(1600).split(40):
        opt.zero_grad()
        loss = nll(model(x[ids]).squeeze(1), counts[ids] * exposure[ids], exposure[ids])
        loss = torch.nan_to_num(loss, nan=0.0)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        for p in model.parameters():
            p.grad = torch.nan_to_num(p.grad)
        opt.step()
    model.eval()
    with torch.no_grad():
        keep = exposure[1600:] > 0
        v = nll(model(x[1600:]).squeeze(1)[keep], (counts * exposure)[1600:][keep], exposure[1600:][keep]).item()
    print(epoch, round(loss.item(), 4), round(v, 4))
