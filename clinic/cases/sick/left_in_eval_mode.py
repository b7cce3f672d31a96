"""Small convnet on 8x8 digits, checked on held-out images after every pass."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(2)
raw, target = load_digits(return_X_y=True)
imgs = torch.tensor(raw, dtype=torch.float32).view(-1, 1, 8, 8) / 16
imgs = (imgs - imgs.mean()) / imgs.std()
target = torch.tensor(target)
perm = torch.randperm(len(imgs))
train_x, train_y = imgs[perm[:1280]], target[perm[:1280]]
val_x, val_y = imgs[perm[1280:]], target[perm[1280:]]


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(24)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(24 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(self.drop(x.flatten(1)))


class Trainer:
    def __init__(self, model, lr=0.05):
        self.model = model
        self.optim = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, nesterov=True)
        self.history = []

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            scores = self.model(val_x)
        return F.cross_entropy(scores, val_y).item(), (scores.argmax(1) == val_y).float().mean().item()

    def fit(self, epochs, batch=64):
        self.model.train()
        for epoch in range(epochs):
            for ids in torch.randperm(len(train_x)).split(batch):
                self.optim.zero_grad()
                loss = F.cross_entropy(self.model(train_x[ids]), train_y[ids])
                loss.backward()
                self.optim.step()
            self.history.append(self.validate())
            print(epoch, "%.4f" % loss.item(), "%.4f %.3f" % self.history[-1])


Trainer(SmallNet()).fit(18)
