"""skorch: classify | regress | folds (cross-validation) | grid."""

import sys

import numpy as np
import torch
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from torch import nn

torch.manual_seed(0)
task = sys.argv[1]
x, y = load_digits(return_X_y=True) if task != "regress" else load_diabetes(return_X_y=True)
x = StandardScaler().fit_transform(x).astype(np.float32)


def network(width, out):
    return nn.Sequential(nn.Linear(x.shape[1], width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, out))


if task == "regress":
    y = ((y - y.mean()) / y.std()).astype(np.float32)[:, None]
    net = NeuralNetRegressor(network(32, 1), max_epochs=30, lr=0.01, optimizer=torch.optim.Adam, iterator_train__shuffle=True)
    net.fit(x, y)
    print(f"loss {net.history[-1]['valid_loss']:.4f}")
else:
    net = NeuralNetClassifier(network(64, 10), criterion=nn.CrossEntropyLoss, max_epochs=8, lr=0.003, optimizer=torch.optim.Adam, iterator_train__shuffle=True)
    if task == "classify":
        net.fit(x, y)
        print(f"loss {net.history[-1]['valid_loss']:.4f}")
    elif task == "folds":
        net.set_params(verbose=0, train_split=None)
        print(f"score {cross_val_score(net, x, y, cv=4).mean():.4f}")
    else:
        net.set_params(verbose=0, train_split=None, max_epochs=4)
        found = GridSearchCV(net, {"lr": [0.001, 0.003, 0.01]}, cv=3).fit(x, y)
        print(f"score {found.best_score_:.4f}")
