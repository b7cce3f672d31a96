"""Wine growers from raw chemistry, momentum SGD."""
import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(79)
X, y = load_wine(return_X_y=True)
Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
Xa, Xb = torch.tensor(Xa, dtype=torch.float32), torch.tensor(Xb, dtype=torch.float32)
ya, yb = torch.tensor(ya), torch.tensor(yb)
loader = DataLoader(TensorDataset(Xa, ya), batch_size=16, shuffle=True)

net = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(80):
    net.train()
    for a, b in loader:
        opt.zero_grad()
        loss = criterion(net(a), b)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(Xb)
    if epoch % 8 == 0:
        print(epoch, f"{loss.item():.3f} {criterion(out, yb).item():.3f} {(out.argmax(1) == yb).float().mean():.3f}")
