"""Planetoid's citation graphs without a download: one made-up graph of seven communities with the usual masks."""

import numpy as np
import torch
from torch_geometric.data import Data, InMemoryDataset


class Planetoid(InMemoryDataset):
    def __init__(self, root=None, name="Cora", split="public", transform=None, pre_transform=None, **_):
        self.name = name
        super().__init__(None, transform)
        rng = np.random.RandomState(0)
        nodes, classes, width = 1200, 7, 100
        label = rng.randint(classes, size=nodes)
        words = (rng.rand(classes, width) < 0.2)[label] ^ (rng.rand(nodes, width) < 0.1)
        one = rng.randint(nodes, size=2600)
        mates = [np.flatnonzero(label == label[a]) if rng.rand() < 0.8 else np.arange(nodes) for a in one]
        other = np.array([pile[rng.randint(len(pile))] for pile in mates])
        edges = np.unique(np.concatenate([np.stack([one, other]), np.stack([other, one])], 1), axis=1)
        edges = edges[:, edges[0] != edges[1]]
        rank = np.zeros(nodes, int)
        for c in range(classes):
            rank[label == c] = np.arange((label == c).sum())
        data = Data(x=torch.from_numpy(words.astype(np.float32)), edge_index=torch.from_numpy(edges), y=torch.from_numpy(label))
        data.train_mask = torch.from_numpy(rank < 20)
        data.val_mask = torch.from_numpy((rank >= 20) & (rank < 70))
        data.test_mask = torch.from_numpy(rank >= 70)
        self.data, self.slices = self.collate([pre_transform(data) if pre_transform else data])

    def _download(self):
        pass

    def _process(self):
        pass
