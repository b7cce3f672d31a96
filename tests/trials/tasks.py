"""Small tasks of many kinds, healthy ones and ones with a planted fault."""

from __future__ import annotations

from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from traindx.trials.task import Task


def digits(count: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x[:count] / 16.0, dtype=torch.float32), torch.tensor(y[:count])


def loaders(x: torch.Tensor, y: torch.Tensor, batch: int = 32) -> tuple[DataLoader, DataLoader]:
    cut = int(0.8 * len(x))
    return DataLoader(TensorDataset(x[:cut], y[:cut]), batch, shuffle=True), DataLoader(TensorDataset(x[cut:], y[cut:]), batch)


def task(
    model: nn.Module, loss: object = None, x: torch.Tensor | None = None, y: torch.Tensor | None = None, lr: float = 1e-3
) -> Task:
    if x is None or y is None:
        x, y = digits()
    train, val = loaders(x, y)
    optimizer = torch.optim.Adam(
        [p for p in model.parameters() if p.requires_grad] or [torch.zeros(1, requires_grad=True)], lr=lr
    )
    return Task(model, loss or nn.CrossEntropyLoss(), train, val, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 50))


def mlp(last: nn.Module | None = None) -> nn.Module:
    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(*layers, *([last] if last is not None else []))


class Reshaped(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x.view(-1, 1, 8, 8))


class Rows(nn.Module):
    """Digits as a sequence of eight rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(8, 32, batch_first=True), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x.view(-1, 8, 8))[0][:, -1])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.block, self.head = (
            nn.Linear(8, 32),
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
            nn.Linear(32, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.up(x.view(-1, 8, 8))).mean(1))


def regression(scale: float = 1.0) -> Task:
    torch.manual_seed(0)
    x = torch.randn(500, 6)
    y = scale * (x @ torch.randn(6, 1) + 0.3 * torch.sin(3 * x[:, :1]))
    return task(nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 1)), nn.MSELoss(), x, y)


def binary() -> Task:
    x, y = digits()
    return task(
        nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)), nn.BCEWithLogitsLoss(), x, (y > 4).float()[:, None]
    )


def conv() -> nn.Module:
    return Reshaped(
        nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(512, 10))
    )


def autoencoder() -> Task:
    x, _ = digits()
    return task(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64)), nn.MSELoss(), x, x)


def by_dict() -> Task:
    x, y = digits()

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.net(pixels)

    model = Named()
    data = [{"pixels": x[i : i + 32], "labels": y[i : i + 32]} for i in range(0, 480, 32)]
    return Task(model, nn.CrossEntropyLoss(), data, None, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))


HEALTHY: dict[str, Callable[[], Task]] = {
    "mlp": lambda: task(mlp()),
    "dropout": lambda: task(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10))),
    "smoothing": lambda: task(mlp(), nn.CrossEntropyLoss(label_smoothing=0.1)),
    "conv and batch norm": lambda: task(conv()),
    "recurrent": lambda: task(Rows()),
    "attention": lambda: task(Attention()),
    "regression": regression,
    "binary": binary,
    "autoencoder": autoencoder,
    "dict batches": by_dict,
    "layer norm and gelu": lambda: task(nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10))),
    "log-softmax and nll": lambda: task(mlp(nn.LogSoftmax(1)), nn.NLLLoss()),
}


def zeroed() -> nn.Module:
    model = mlp()
    for p in model.parameters():
        nn.init.zeros_(p)
    return model


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).detach()


class Blind(nn.Module):
    """Ignores what it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(torch.zeros_like(x))


def frozen() -> nn.Module:
    model = mlp()
    model.requires_grad_(False)
    return model


SICK: dict[str, Callable[[], Task]] = {
    "softmax into cross-entropy": lambda: task(mlp(nn.Softmax(1))),
    "zero initialisation": lambda: task(zeroed()),
    "detached output": lambda: task(Detached()),
    "input ignored": lambda: task(Blind()),
    "nothing trainable": lambda: task(frozen()),
    "relu on the logits, bias far below": lambda: task(_dead()),
    "tanh head for large targets": lambda: _unreachable(),
}


def _dead() -> nn.Module:
    model = mlp(nn.ReLU())
    with torch.no_grad():
        model[2].bias.fill_(-100.0)
    return model


def _unreachable() -> Task:
    made = regression(scale=8.0)
    made.model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
    made.optimizer, made.scheduler = torch.optim.Adam(made.model.parameters()), None
    return made
