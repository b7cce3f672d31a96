"""fastai's Learner: classify | tabular, one cycle."""

import sys

import torch
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from fastai.metrics import accuracy
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import TensorDataset

torch.manual_seed(0)
x, y = load_digits(return_X_y=True) if sys.argv[1] == "classify" else load_breast_cancer(return_X_y=True)
x = (x - x.mean(0)) / (x.std(0) + 1e-6)
x, y, cut = torch.tensor(x, dtype=torch.float32), torch.tensor(y), int(0.8 * len(x))
loaders = DataLoaders.from_dsets(TensorDataset(x[:cut], y[:cut]), TensorDataset(x[cut:], y[cut:]), bs=32, device="cpu")
model = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, int(y.max()) + 1))
learner = Learner(loaders, model, loss_func=nn.CrossEntropyLoss(), metrics=accuracy)
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(8, 3e-3)
    print(f"loss {float(learner.validate()[0]):.4f}")
