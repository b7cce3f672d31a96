"""lightning's Trainer: classify | autoencode | gan | sweep, on the digits."""

import sys

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

L.seed_everything(0)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y)
loaders = (DataLoader(TensorDataset(x[:1400], y[:1400]), 32, shuffle=True), DataLoader(TensorDataset(x[1400:], y[1400:]), 64))


class Classifier(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        out = self(batch[0])
        self.log("val_loss", F.cross_entropy(out, batch[1]))
        self.log("val_acc", (out.argmax(-1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class Autoencoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64))

    def _loss(self, batch):
        return F.mse_loss(self.decoder(self.encoder(batch[0])), batch[0])

    def training_step(self, batch, _):
        return self._loss(batch)

    def validation_step(self, batch, _):
        self.log("val_loss", self._loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=2e-3)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)]


class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())
        self.critic = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def training_step(self, batch, _):
        first, second = self.optimizers()
        real, noise = batch[0], torch.randn(len(batch[0]), 16)
        self.toggle_optimizer(first)
        fooled = F.binary_cross_entropy_with_logits(self.critic(self.generator(noise)), torch.ones(len(real), 1))
        self.manual_backward(fooled)
        first.step()
        first.zero_grad()
        self.untoggle_optimizer(first)
        self.toggle_optimizer(second)
        told = F.binary_cross_entropy_with_logits(self.critic(real), torch.ones(len(real), 1))
        told = told + F.binary_cross_entropy_with_logits(self.critic(self.generator(noise).detach()), torch.zeros(len(real), 1))
        self.manual_backward(told / 2)
        second.step()
        second.zero_grad()
        self.untoggle_optimizer(second)
        self.log("val_loss", fooled)

    def configure_optimizers(self):
        return [torch.optim.Adam(self.generator.parameters(), 2e-4, (0.5, 0.999)), torch.optim.Adam(self.critic.parameters(), 2e-4, (0.5, 0.999))], []


quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu")
made = {"classify": [Classifier()], "autoencode": [Autoencoder()], "gan": [Gan()], "sweep": [Classifier(r) for r in (1e-2, 3e-3, 1e-3)]}
for model in made[sys.argv[1]]:
    trainer = L.Trainer(max_epochs=8 if sys.argv[1] != "sweep" else 4, **quiet)
    trainer.fit(model, *(loaders if sys.argv[1] != "gan" else loaders[:1]))
    print(f"val loss {float(trainer.callback_metrics['val_loss']):.4f}")
