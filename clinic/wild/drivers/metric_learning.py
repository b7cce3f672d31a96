"""pytorch-metric-learning: triplet (with a miner) | arcface (an optimizer for the loss) | contrastive."""

import sys

import torch
from pytorch_metric_learning import losses, miners
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x[:1400], y[:1400]), 64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
optimizers = [torch.optim.Adam(model.parameters(), 2e-3)]
miner = None
if sys.argv[1] == "triplet":
    loss_of, miner = losses.TripletMarginLoss(margin=0.2), miners.MultiSimilarityMiner()
elif sys.argv[1] == "arcface":
    loss_of = losses.ArcFaceLoss(10, 16)
    optimizers.append(torch.optim.SGD(loss_of.parameters(), 0.01))
else:
    loss_of = losses.ContrastiveLoss()
for epoch in range(8):
    for inputs, labels in loader:
        for optimizer in optimizers:
            optimizer.zero_grad()
        vectors = model(inputs)
        loss = loss_of(vectors, labels, miner(vectors, labels) if miner else None)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    with torch.no_grad():
        model.eval()
        known, asked = nn.functional.normalize(model(x[:1400])), nn.functional.normalize(model(x[1400:]))
        right = (y[:1400][(asked @ known.T).argmax(-1)] == y[1400:]).float().mean()
        model.train()
    print(f"epoch {epoch} loss {loss.item():.4f} precision {right:.4f}")
