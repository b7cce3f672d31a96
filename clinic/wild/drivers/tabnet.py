"""pytorch-tabnet: classify | regress | pretrain."""

import sys

import numpy as np
from pytorch_tabnet.pretraining import TabNetPretrainer
from pytorch_tabnet.tab_model import TabNetClassifier, TabNetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes

task = sys.argv[1]
x, y = load_breast_cancer(return_X_y=True) if task != "regress" else load_diabetes(return_X_y=True)
x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
cut = int(0.8 * len(x))
how = dict(max_epochs=10, patience=10, batch_size=128, virtual_batch_size=64)
if task == "classify":
    net = TabNetClassifier(seed=0, verbose=0)
    net.fit(x[:cut], y[:cut], eval_set=[(x[cut:], y[cut:])], eval_metric=["logloss"], **how)
elif task == "regress":
    y = ((y - y.mean()) / y.std()).astype(np.float32)[:, None]
    net = TabNetRegressor(seed=0, verbose=0)
    net.fit(x[:cut], y[:cut], eval_set=[(x[cut:], y[cut:])], eval_metric=["mse"], **how)
else:
    net = TabNetPretrainer(seed=0, verbose=0)
    net.fit(x[:cut], eval_set=[x[cut:]], **how)
print(f"loss {float(net.history['loss'][-1]):.4f}")
