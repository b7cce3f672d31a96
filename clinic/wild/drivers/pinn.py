"""deepxde: a Poisson problem by Adam, then by L-BFGS: poisson | burgers | inverse."""

import sys

import deepxde as dde
import numpy as np
import torch

dde.config.set_random_seed(0)
if sys.argv[1] == "burgers":
    geometry = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 0.99))

    def equation(x, u):
        first = dde.grad.jacobian(u, x, j=0)
        return dde.grad.jacobian(u, x, j=1) + u * first - 0.01 / np.pi * dde.grad.hessian(u, x, i=0, j=0)

    wall = dde.icbc.DirichletBC(geometry, lambda x: 0, lambda _, on: on)
    start = dde.icbc.IC(geometry, lambda x: -np.sin(np.pi * x[:, 0:1]), lambda _, on: on)
    data = dde.data.TimePDE(geometry, equation, [wall, start], num_domain=300, num_boundary=40, num_initial=60)
    net = dde.nn.FNN([2, 20, 20, 20, 1], "tanh", "Glorot normal")
else:
    geometry = dde.geometry.Interval(-1, 1)

    def equation(x, u):
        return -dde.grad.hessian(u, x) - np.pi**2 * torch.sin(np.pi * x)

    wall = dde.icbc.DirichletBC(geometry, lambda x: 0, lambda _, on: on)
    data = dde.data.PDE(geometry, equation, wall, 32, 2, solution=lambda x: np.sin(np.pi * x), num_test=100)
    net = dde.nn.FNN([1, 20, 20, 1], "tanh", "Glorot uniform")
model = dde.Model(data, net)
model.compile("adam", lr=1e-3)
model.train(iterations=400, display_every=100, verbose=0)
dde.optimizers.set_LBFGS_options(maxiter=60)
model.compile("L-BFGS")
losses, _ = model.train(display_every=20, verbose=0)
print(f"loss {float(np.sum(losses.loss_train[-1])):.6f}")
