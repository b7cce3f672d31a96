"""Handwritten digits with a small MLP."""

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)

X, y = load_digits(return_X_y=True)
X = (X / 16.0).astype("float32")
X_tr, X_va, y_tr, y_va = train_test_split(X, y, test_size=0.25, random_state=7, stratify=y)
train = DataLoader(TensorDataset(torch.from_numpy(X_tr), torch.from_numpy(y_tr)), batch_size=64, shuffle=True)
valid = DataLoader(TensorDataset(torch.from_numpy(X_va), torch.from_numpy(y_va)), batch_size=256)

model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train_one_epoch():
    model.train()
    total = 0.0
    for inputs, targets in train:
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(targets)
    return total / len(train.dataset)


def evaluate():
    model.eval()
    total = correct = 0
    with torch.no_grad():
        for inputs, targets in valid:
            logits = model(inputs)
            total += criterion(logits, targets).item() * len(targets)
            correct += (logits.argmax(1) == targets).sum().item()
    n = len(valid.dataset)
    return total / n, correct / n


for epoch in range(20):
    tr = train_one_epoch()
    va, acc = evaluate()
    print(f"epoch {epoch:2d}  train {tr:.4f}  val {va:.4f}  acc {acc:.3f}")
