"""Digits with a two-layer perceptron and Adam."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 0
EPOCHS = 12
BATCH = 50
LR = 1e-3

torch.manual_seed(SEED)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
order = torch.randperm(len(X))
X, y = X[order], y[order]
train_x, train_y, val_x, val_y = X[:1400], y[:1400], X[1400:], y[1400:]
train_loader = DataLoader(TensorDataset(train_x, train_y), batch_size=BATCH, shuffle=True)
val_loader = DataLoader(TensorDataset(val_x, val_y), batch_size=len(val_x))

model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)


def evaluate(model):
    model.eval()
    total, correct = 0.0, 0
    with torch.no_grad():
        for xb, yb in val_loader:
            logits = model(xb)
            total += criterion(logits, yb).item() * len(yb)
            correct += (logits.argmax(1) == yb).sum().item()
    return total / len(val_x), correct / len(val_x)


for epoch in range(EPOCHS):
    model.train()
    for xb, yb in train_loader:
        optimizer.zero_grad()
        logits = model(xb)
        loss = criterion(logits, yb)
        loss.backward()
        optimizer.step()
    val, acc = evaluate(model)
    print(f"epoch {epoch:2d} train {loss.item():.4f} val {val:.4f} acc {acc:.3f}")
