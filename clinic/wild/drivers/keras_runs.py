"""Keras 3 on torch: classify | regress | autoencode."""

import sys

import keras
import numpy as np
from sklearn.datasets import load_diabetes, load_digits

keras.utils.set_random_seed(0)
task = sys.argv[1]
x, y = load_digits(return_X_y=True) if task != "regress" else load_diabetes(return_X_y=True)
x = ((x - x.mean(0)) / (x.std(0) + 1e-6)).astype("float32")
width = x.shape[1]
if task == "classify":
    layers = [keras.layers.Dense(64, "relu"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.2), keras.layers.Dense(10, "softmax")]
    how = dict(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
elif task == "regress":
    y = ((y - y.mean()) / y.std()).astype("float32")
    layers, how = [keras.layers.Dense(32, "relu"), keras.layers.Dense(1)], dict(loss="mse")
else:
    y = x
    layers, how = [keras.layers.Dense(32, "relu"), keras.layers.Dense(8), keras.layers.Dense(32, "relu"), keras.layers.Dense(width)], dict(loss="mse")
model = keras.Sequential([keras.Input((width,)), *layers])
model.compile(optimizer=keras.optimizers.Adam(2e-3), **how)
order = np.random.RandomState(0).permutation(len(x))
told = model.fit(x[order], y[order], batch_size=32, epochs=8, validation_split=0.2, verbose=0)
print(f"loss {told.history['val_loss'][-1]:.4f}")
