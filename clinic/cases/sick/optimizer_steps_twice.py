import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(30)
x, t = load_digits(return_X_y=True)
x = torch.tensor(x, dtype=torch.float32) / 16
t = torch.tensor(t)
idx = torch.randperm(len(x))
x, t = x[idx], t[idx]


def make_model():
    return nn.Sequential(nn.Linear(64, 80), nn.LeakyReLU(0.1), nn.Linear(80, 10))


def update(model, opt, xb, tb):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(xb), tb)
    loss.backward()
    opt.step()
    return loss.item()


def main(epochs=12, bs=50):
    model = make_model()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for e in range(epochs):
        model.train()
        losses = []
        for b in torch.randperm(1400).split(bs):
            losses.append(update(model, opt, x[b], t[b]))
            opt.step()
        model.eval()
        with torch.no_grad():
            z = model(x[1400:])
            print(e, sum(losses) / len(losses), nn.functional.cross_entropy(z, t[1400:]).item(), (z.argmax(1) == t[1400:]).float().mean().item())


if __name__ == "__main__":
    main()
