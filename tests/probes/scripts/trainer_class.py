"""A Trainer class whose model's parts are called by a method, a scheduler, clipping and a loss module."""

import argparse

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.head = nn.Linear(12, 1)

    def predict(self, x):
        return self.head(torch.tanh(self.body(x)))


class Trainer:
    def __init__(self, lr, steps):
        self.model = Net()
        self.steps = steps
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 10, 0.5)
        self.loss = nn.MSELoss()

    def run(self):
        for step in range(self.steps):
            x = torch.randn(16, 6)
            loss = self.loss(self.model.predict(x).squeeze(1), x.sum(1))
            self.optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            if step % 10 == 0:
                print(step, repr(loss.item()), repr(norm.item()), self.scheduler.get_last_lr())


parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.steps)
Trainer(args.lr, args.steps).run()
