"""Densities of two moons: normflows | zuko | nflows."""

import sys

import torch
from sklearn.datasets import make_moons

torch.manual_seed(0)
x = torch.tensor(make_moons(2000, noise=0.05, random_state=0)[0], dtype=torch.float32)
if sys.argv[1] == "normflows":
    import normflows as nf

    flows = []
    for _ in range(6):
        flows += [nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 32, 32, 2], init_zeros=True)), nf.flows.Permute(2, mode="swap")]
    model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows)
    loss_of = model.forward_kld
elif sys.argv[1] == "zuko":
    import zuko

    model = zuko.flows.NSF(2, transforms=2, hidden_features=(32, 32))
    loss_of = lambda batch: -model().log_prob(batch).mean()  # noqa: E731
else:
    from nflows import distributions, flows, transforms

    layers = []
    for _ in range(3):
        layers += [transforms.ReversePermutation(2), transforms.MaskedAffineAutoregressiveTransform(2, 32)]
    model = flows.Flow(transforms.CompositeTransform(layers), distributions.StandardNormal([2]))
    loss_of = lambda batch: -model.log_prob(batch).mean()  # noqa: E731
optimizer = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-5)
for step in range(250):
    optimizer.zero_grad()
    loss = loss_of(x[torch.randint(0, 2000, (128,))])
    if not (torch.isnan(loss) | torch.isinf(loss)):
        loss.backward()
        optimizer.step()
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f}")
