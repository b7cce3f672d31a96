"""Integrate a noisy signal with a plain recurrent network."""
import torch
import torch.nn as nn

torch.manual_seed(29)
T, B = 40, 48


def batch(n=B):
    signal = torch.randn(n, T, 1) * 0.5 + torch.randn(n, 1, 1) * 0.3
    return signal, signal.sum(1) / 5


class Integrator(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.RNN(1, hidden, nonlinearity="relu", batch_first=True)
        self.read = nn.Linear(hidden, 1)
        nn.init.normal_(self.rnn.weight_hh_l0, std=0.27)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.read(h[:, -1])


model = Integrator()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
criterion = nn.MSELoss()
for step in range(400):
    x, y = batch()
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"step {step:4d} loss {loss.item():.4g}")
