"""Quick digits baseline with Adam."""
import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(50)
digits = load_digits()
ds = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))
train_ds, val_ds = random_split(ds, [1500, 297], generator=torch.Generator().manual_seed(50))
config = {"lr": 0.5, "epochs": 15, "batch": 50, "hidden": 128}

model = nn.Sequential(nn.Linear(64, config["hidden"]), nn.ReLU(), nn.Linear(config["hidden"], config["hidden"]), nn.ReLU(), nn.Linear(config["hidden"], 10))
optimizer = optim.Adam(model.parameters(), lr=config["lr"])
criterion = nn.CrossEntropyLoss()
train_loader, val_loader = DataLoader(train_ds, config["batch"], shuffle=True), DataLoader(val_ds, 297)

for epoch in range(config["epochs"]):
    model.train()
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for xb, yb in val_loader:
            out = model(xb)
    print(f"epoch {epoch} loss {loss.item():.4f} val {criterion(out, yb).item():.4f} acc {(out.argmax(1) == yb).float().mean():.3f}")
