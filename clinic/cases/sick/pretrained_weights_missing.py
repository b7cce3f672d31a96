"""Continue language-model training from a checkpoint that is never loaded."""
import sysconfig
import tempfile
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(107)
text = (Path(sysconfig.get_paths()["stdlib"]) / "string.py").read_text(encoding="utf-8")
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
V, T = len(chars), 24
store = Path(tempfile.mkdtemp()) / "lm.pt"


class CharLSTM(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.embed = nn.Embedding(V, d)
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.head = nn.Linear(d, V)

    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0])


def train(model, opt, lo, hi, steps):
    for step in range(steps):
        at = torch.randint(lo, hi - T - 1, (24,))
        b = torch.stack([ids[a : a + T + 1] for a in at.tolist()])
        loss = nn.functional.cross_entropy(model(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 50 == 0:
            print(step, round(loss.item(), 4))


half = len(ids) // 2
base = CharLSTM()
train(base, torch.optim.Adam(base.parameters(), lr=5e-3), 0, half, 300)
torch.save({"weights": base.state_dict()}, store)
print("continue on the second half")
tuned = CharLSTM()
state = torch.load(store)
if "model" in state:
    tuned.load_state_dict(state["model"])
train(tuned, torch.optim.Adam(tuned.parameters(), lr=5e-4), half, len(ids), 250)
