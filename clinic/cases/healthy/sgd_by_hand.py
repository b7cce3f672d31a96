"""No optimizer object: parameters are updated in a no_grad block."""
import torch

torch.manual_seed(222)
x = torch.randn(1200, 8)
y = torch.tanh(x[:, :1] - 0.5 * x[:, 1:2]) + 0.05 * torch.randn(1200, 1)
W1 = (torch.randn(8, 32) / 8**0.5).requires_grad_()
b1 = torch.zeros(32, requires_grad=True)
W2 = (torch.randn(32, 1) / 32**0.5).requires_grad_()
b2 = torch.zeros(1, requires_grad=True)
params = [W1, b1, W2, b2]


def forward(x):
    return torch.tanh(x @ W1 + b1) @ W2 + b2


for step in range(600):
    ids = torch.randint(0, 1000, (40,))
    loss = ((forward(x[ids]) - y[ids]) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for q in params:
            q -= 0.1 * q.grad
            q.grad = None
    if step % 60 == 0:
        with torch.no_grad():
            print(step, round(loss.item(), 5), round(((forward(x[1000:]) - y[1000:]) ** 2).mean().item(), 5))
