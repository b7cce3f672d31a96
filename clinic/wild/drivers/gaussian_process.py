"""Gaussian processes: exact | variational | deep (kernel on a network) | botorch."""

import sys

import gpytorch
import torch

torch.manual_seed(0)
task = sys.argv[1]
x = torch.linspace(0, 1, 120)
y = torch.sin(8 * x) + 0.1 * torch.randn(120)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        self.net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)) if task == "deep" else None

    def forward(self, x):
        x = self.net(x) if self.net is not None else x
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        posterior = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, posterior, learn_inducing_locations=True))
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


if task == "botorch":
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP

    model = SingleTaskGP(x[:, None].double(), y[:, None].double())
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll)
    model.train()
    print(f"loss {-mll(model(*model.train_inputs), model.train_targets).item():.4f}")
elif task == "variational":
    likelihood, model = gpytorch.likelihoods.GaussianLikelihood(), Variational(x[::8, None].clone())
    mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x[:, None], y), 30, shuffle=True)
    for epoch in range(40):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = -mll(model(inputs), targets)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
else:
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    inputs = x if task == "exact" else x[:, None]
    model = Exact(inputs, y, likelihood)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(120):
        optimizer.zero_grad()
        loss = -mll(model(inputs), y)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
