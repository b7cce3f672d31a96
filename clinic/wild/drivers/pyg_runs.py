"""torch-geometric: node | graphs | link, on made-up graphs."""

import sys

import torch
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GAE, GCNConv, GINConv, SAGEConv, global_add_pool

torch.manual_seed(0)
task = sys.argv[1]
gen = torch.Generator().manual_seed(0)


def ring(n, kind):
    a = torch.arange(n)
    b = (a + 1) % n if kind else torch.randint(0, n, (n,), generator=gen)
    return Data(x=torch.rand(n, 4, generator=gen), edge_index=torch.cat([torch.stack([a, b]), torch.stack([b, a])], 1), y=torch.tensor([kind]))


class Net(torch.nn.Module):
    def __init__(self, width, out):
        super().__init__()
        make = (lambda a, b: GINConv(torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Linear(b, b)))) if task == "graphs" else SAGEConv if task == "node" else GCNConv
        self.one, self.two, self.head = make(width, 32), make(32, 32), torch.nn.Linear(32, out)

    def forward(self, x, edges, batch=None):
        x = self.two(F.dropout(self.one(x, edges).relu(), 0.2, self.training), edges)
        return x if task == "link" else self.head(global_add_pool(x, batch) if batch is not None else x)


if task == "graphs":
    graphs = [ring(int(torch.randint(8, 16, (1,), generator=gen)), k % 2) for k in range(300)]
    train, held = DataLoader(graphs[:240], 32, shuffle=True), DataLoader(graphs[240:], 32)
    model = Net(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(15):
        model.train()
        for data in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data.x, data.edge_index, data.batch), data.y)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum(int((model(d.x, d.edge_index, d.batch).argmax(-1) == d.y).sum()) for d in held)
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {right / 60:.4f}")
else:
    from wild_graphs import Planetoid

    data = Planetoid()[0]
    model = GAE(Net(data.num_features, 7)) if task == "link" else Net(data.num_features, 7)
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    for epoch in range(60):
        model.train()
        optimizer.zero_grad()
        if task == "link":
            loss = model.recon_loss(model.encode(data.x, data.edge_index), data.edge_index)
        else:
            loss = F.cross_entropy(model(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        if task == "node":
            model.eval()
            with torch.no_grad():
                right = (model(data.x, data.edge_index).argmax(-1) == data.y)[data.test_mask].float().mean()
        print(f"epoch {epoch} loss {loss.item():.4f}" + (f" accuracy {right:.4f}" if task == "node" else ""))
