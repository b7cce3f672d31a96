"""ignite's engines: supervised | gan."""

import sys

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
train = DataLoader(TensorDataset(x[:1400], y[:1400]), 32, shuffle=True)
held = DataLoader(TensorDataset(x[1400:], y[1400:]), 64)
if sys.argv[1] == "supervised":
    model, criterion = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.8), criterion)
    evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(criterion)})

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        evaluator.run(held)
        print(f"epoch {engine.state.epoch} loss {evaluator.state.metrics['loss']:.4f}")
else:
    maker = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())
    critic = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1), nn.Sigmoid())
    first = torch.optim.Adam(maker.parameters(), 2e-4, (0.5, 0.999))
    second = torch.optim.Adam(critic.parameters(), 2e-4, (0.5, 0.999))
    bce = nn.BCELoss()

    def step(engine, batch):
        real, ones = batch[0], torch.ones(len(batch[0]), 1)
        second.zero_grad()
        fake = maker(torch.randn(len(real), 16))
        told = bce(critic(real), ones) + bce(critic(fake.detach()), 1 - ones)
        told.backward()
        second.step()
        first.zero_grad()
        fooled = bce(critic(fake), ones)
        fooled.backward()
        first.step()
        return fooled.item()

    trainer = Engine(step)

    @trainer.on(Events.EPOCH_COMPLETED)
    def tell(engine):
        print(f"epoch {engine.state.epoch} loss {engine.state.output:.4f}")


trainer.run(train, max_epochs=8)
