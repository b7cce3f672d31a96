"""A small student learns from a teacher's soft outputs."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(251)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
t_opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
for _ in range(250):
    ids = torch.randint(0, 1400, (64,))
    t_opt.zero_grad()
    F.cross_entropy(teacher(X[ids]), y[ids]).backward()
    t_opt.step()
teacher.eval()
student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
opt = torch.optim.Adam(student.parameters(), lr=3e-3)
TEMP = 3.0
for epoch in range(14):
    student.train()
    for ids in torch.randperm(1400).split(50):
        with torch.no_grad():
            soft = F.softmax(teacher(X[ids]) / TEMP, dim=1)
        logp = F.log_softmax(student(X[ids]) / TEMP, dim=1)
        loss = F.kl_div(logp, soft, reduction="batchmean") * TEMP**2
        opt.zero_grad()
        loss.backward()
        opt.step()
    student.eval()
    with torch.no_grad():
        out = student(X[1400:])
    print(epoch, f"{loss.item():.4f} {F.cross_entropy(out, y[1400:]).item():.4f} {(out.argmax(1) == y[1400:]).float().mean():.3f}")
