"""How soon exact facts are found: one small program per fact, run under plain `traindx run` and cut off ever earlier.

Each program is a plain training loop with one edit. `first` is the update at which the fault can first be seen; the run ends some
updates later and is judged as it stands. The figure is the least number of updates after `first` (of `AFTER`) from which on every
cut found the fault under an accepted code; a fault that begins late meets a recorder that only glimpses most steps.

    python -m bench.exact_facts                 # all, writes bench/results/exact_facts.{json,md}
    python -m bench.exact_facts zero_grad mode  # those whose name has one of these words; writes nothing
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clinic.patient import _cli, in_fork

RESULTS = Path(__file__).parent / "results"
AFTER = (5, 20, 80)
BAR = 20
LATE = 300  # updates: well into the part of a run in which steps are glimpsed

BASE = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(1200, 16)
y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long() + (x[:, 3] > 1).long()
train = DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=50, shuffle=True)
val = DataLoader(TensorDataset(x[1000:], y[1000:]), batch_size=50)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1))
        self.mid = nn.Linear(64, 32)
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        h = self.body(x)
        h = F.relu(self.mid(h))
        return self.head(h)


model = Net()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def validate():
    model.eval()
    total = 0.0
    with torch.no_grad():
        for xb, yb in val:
            total += loss_fn(model(xb), yb).item() * len(xb)
    return total / len(val.dataset)


step = 0
while step < STEPS:
    model.train()
    for xb, yb in train:
        if step == STEPS:
            break
        optimizer.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        optimizer.step()
        step += 1
    print(step, validate())
"""

LM = """
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
text = torch.randint(1, 30, (200, 12))
text[:, 1::2] = text[:, ::2] * 7 % 29 + 1
text[:, 9:] = torch.where(torch.rand(200, 1) < 0.5, 0, text[:, 9:])  # 0 is padding


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 30, bias=False)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.head.weight = self.embed.weight

    def forward(self, t):
        mask = torch.full((t.shape[1], t.shape[1]), float("-inf")).triu(1)
        return self.head(self.encoder(self.embed(t), mask=mask))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(STEPS):
    batch = text[torch.randint(0, len(text), (16,))]
    inputs, labels = batch[:, :-1], batch[:, 1:].clone()
    labels[labels == 0] = -100
    logits = model(inputs)
    loss = F.cross_entropy(logits.reshape(-1, 30), labels.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Fact:
    """A fault, as edits of a program, with the codes that name it and the update at which it can first be seen."""

    name: str
    codes: tuple[str, ...]
    edits: tuple[tuple[str, str], ...]
    first: int = 0
    base: str = BASE

    def program(self, after: int) -> str:
        text = self.base
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} stands {text.count(old)} times in the program")
            text = text.replace(old, new)
        return f"STEPS, LATE = {self.first + after}, {LATE}\n" + text


STEP = "        loss.backward()\n        optimizer.step()\n"
ZERO = "        optimizer.zero_grad()\n        loss = loss_fn(model(xb), yb)\n"
OPTIMIZER = "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n"
LOSS = "        loss = loss_fn(model(xb), yb)\n"
EPOCH = 20  # updates of an epoch of BASE

FACTS = (
    # -- ownership
    Fact("parameters in no optimizer", ("WIRE001",), ((OPTIMIZER, "optimizer = torch.optim.Adam([*model.body.parameters(), *model.head.parameters()], lr=1e-3)\n"),)),
    Fact("head replaced after the optimizer was made", ("WIRE001",), ((OPTIMIZER, OPTIMIZER + "model.head = nn.Linear(32, 3)\n"),)),
    Fact("head replaced late, optimizer stale", ("WIRE001",), (("    model.train()\n", "    model.train()\n    if step == LATE:\n        model.head = nn.Linear(32, 3)\n"),), LATE),
    Fact("a layer half frozen", ("WIRE002",), ((OPTIMIZER, "model.mid.weight.requires_grad = False\n" + OPTIMIZER),)),
    Fact("everything frozen but a loss weight", ("WIRE002", "WIRE003", "WIRE001"), ((OPTIMIZER, "for p in model.body.parameters():\n    p.requires_grad = False\nfor p in model.mid.parameters():\n    p.requires_grad = False\n" + OPTIMIZER),)),
    Fact("frozen late", ("WIRE002",), (("    model.train()\n", "    model.train()\n    if step == LATE:\n        model.body.requires_grad_(False)\n"),), LATE),
    Fact("a part detached", ("WIRE003",), (("h = self.body(x)", "h = self.body(x).detach()"),)),
    Fact("a part under no_grad", ("WIRE003",), (("        h = self.body(x)\n", "        with torch.no_grad():\n            h = self.body(x)\n"),)),
    Fact("a part through .data", ("WIRE003",), (("h = self.body(x)", "h = self.body(x).data"),)),
    Fact("a part through numpy", ("WIRE003",), (("h = self.body(x)", "h = torch.tensor(self.body(x).detach().numpy())"),)),
    # -- order of calls
    Fact("zero_grad missing", ("WIRE004",), ((ZERO, LOSS),)),
    Fact("zero_grad once an epoch", ("WIRE004",), ((ZERO, LOSS), ("    model.train()\n", "    model.train()\n    optimizer.zero_grad()\n"))),
    Fact("zero_grad missing from late on", ("WIRE004",), ((ZERO, "        if step < LATE:\n            optimizer.zero_grad()\n" + LOSS),), LATE),
    Fact("zero_grad between backward and step", ("WIRE016",), ((ZERO, LOSS), (STEP, "        loss.backward()\n        optimizer.zero_grad()\n        optimizer.step()\n"))),
    Fact("step without backward", ("WIRE016",), ((STEP, "        optimizer.step()\n"),)),
    Fact("step without backward from late on", ("WIRE016", "WIRE011"), ((STEP, "        if step < LATE:\n            loss.backward()\n        optimizer.step()\n"),), LATE),
    Fact("zero_grad missing for a second optimizer", ("WIRE004",), ((OPTIMIZER, "optimizer = torch.optim.Adam(model.body.parameters(), lr=1e-3)\nother = torch.optim.SGD([*model.mid.parameters(), *model.head.parameters()], lr=1e-3)\n"), (STEP, STEP + "        other.step()\n"))),
    Fact("gradients not cleared in updates by hand", ("WIRE004",), ((OPTIMIZER, ""), (ZERO, LOSS), (STEP, "        loss.backward()\n        with torch.no_grad():\n            for p in model.parameters():\n                p -= 1e-3 * p.grad\n"))),
    Fact("zero_grad before each accumulated backward", ("WIRE011",), ((ZERO + STEP + "        step += 1\n", "        i = globals().get('i', 0) + 1\n        optimizer.zero_grad()\n" + LOSS + "        (loss / 4).backward()\n        if i % 4 == 0:\n            optimizer.step()\n            step += 1\n"),)),
    Fact("two steps per backward", ("WIRE011",), ((STEP, STEP + "        optimizer.step()\n"),)),
    Fact("two steps per backward from late on", ("WIRE011",), ((STEP, STEP + "        if step >= LATE:\n            optimizer.step()\n"),), LATE),
    Fact("accumulation not divided", ("WIRE011",), ((ZERO + STEP + "        step += 1\n", "        i = globals().get('i', 0) + 1\n" + LOSS + "        loss.backward()\n        if i % 4 == 0:\n            optimizer.step()\n            optimizer.zero_grad()\n            step += 1\n"),)),
    Fact("scheduler before the optimizer", ("WIRE010",), ((OPTIMIZER, OPTIMIZER + "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)\n"), (STEP, "        loss.backward()\n        scheduler.step()\n        optimizer.step()\n"))),
    Fact("a schedule of epochs stepped with batches", ("WIRE010",), ((OPTIMIZER, OPTIMIZER + "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)\n"), (STEP, STEP + "        scheduler.step()\n")), 10),
    Fact("a schedule stepped twice per update", ("WIRE010",), ((OPTIMIZER, OPTIMIZER + "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)\n"), (STEP, STEP + "        scheduler.step()\n        scheduler.step()\n"))),
    Fact("OneCycleLR stepped once an epoch", ("WIRE010",), ((OPTIMIZER, OPTIMIZER + "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=1000)\n"), ("    print(step, validate())\n", "    scheduler.step()\n    print(step, validate())\n")), EPOCH),
    Fact("OneCycleLR never stepped", ("WIRE010",), ((OPTIMIZER, OPTIMIZER + "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=1000)\n"),)),
    Fact("a new scheduler each epoch", ("WIRE010",), (("    model.train()\n", "    model.train()\n    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.5)\n"), (STEP, STEP + "        scheduler.step()\n")), 3 * EPOCH),
    Fact("clip after step", ("OPTM006", "WIRE011", "WIRE010"), ((STEP, STEP + "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"),)),
    Fact("clip before unscale", ("NUMR006", "OPTM006", "NUMR005"), ((OPTIMIZER, OPTIMIZER + "scaler = torch.amp.GradScaler('cpu')\n"), (STEP, "        scaler.scale(loss).backward()\n        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        scaler.step(optimizer)\n        scaler.update()\n"))),
    # -- modes
    Fact("trained in eval mode from the start", ("WIRE005",), (("    model.train()\n", "    model.eval()\n"),)),
    Fact("left in eval mode after validation", ("WIRE005",), (("    model.train()\n", ""), ("step = 0\n", "step = 0\nmodel.train()\n")), EPOCH),
    Fact("left in eval mode, late", ("WIRE005",), (("    model.train()\n", "    if step < LATE:\n        model.train()\n"),), LATE),
    Fact("a part left in eval mode after the first update", ("WIRE005",), ((STEP, STEP + "        model.body.eval()\n"), ("    model.train()\n", ""), ("step = 0\n", "step = 0\nmodel.train()\n"), ("    model.eval()\n", "    pass\n")), 1),
    Fact("a BatchNorm put to sleep late", ("WIRE005",), (("    model.train()\n", "    model.train()\n    if step >= LATE:\n        model.body[1].eval()\n"),), LATE),
    Fact("validated in train mode", ("EVAL009",), (("    model.eval()\n", ""),), EPOCH),
    Fact("validated with graphs", ("EVAL009",), (("    with torch.no_grad():\n        for xb, yb in val:\n            total += loss_fn(model(xb), yb).item() * len(xb)\n", "    for xb, yb in val:\n        total += loss_fn(model(xb), yb).item() * len(xb)\n"),), EPOCH),
    Fact("BatchNorm statistics touched by validation", ("EVAL009",), (("    model.eval()\n", "    model.eval()\n    model.body[1].train()\n"),), EPOCH),
    # -- modules
    Fact("weight tying broken", ("WIRE012",), (("model = Model()\n", "model = Model()\nmodel.embed.weight = nn.Parameter(model.embed.weight.detach().clone())\n"),), base=LM),
    Fact("a module never called", ("WIRE014",), (("        h = F.relu(self.mid(h))\n        return self.head(h)", "        return self.head(h[:, :32])"),)),
    Fact("modules in a plain list", ("WIRE014",), (("        self.mid = nn.Linear(64, 32)\n", "        self.mids = [nn.Linear(64, 32)]\n        self.more = [nn.Linear(32, 32), nn.Linear(32, 32)]\n"), ("        h = F.relu(self.mid(h))\n", "        h = F.relu(self.mids[0](h))\n        for m in self.more:\n            h = F.relu(m(h))\n"))),
    Fact("a parameter never used", ("WIRE014", "GRAD004", "WIRE003"), (("        self.head = nn.Linear(32, 3)\n", "        self.head = nn.Linear(32, 3)\n        self.scale = nn.Parameter(torch.ones(64, 32))\n"),)),
    Fact("a checkpoint loaded in part", ("WIRE015",), ((OPTIMIZER, "state = {'module.' + k: v for k, v in Net().state_dict().items()}\nmodel.load_state_dict(state, strict=False)\n" + OPTIMIZER),)),
    Fact("a checkpoint without a layer", ("WIRE015",), ((OPTIMIZER, "state = {k: v for k, v in Net().state_dict().items() if not k.startswith('body')}\nmodel.load_state_dict(state, strict=False)\n" + OPTIMIZER),)),
    # -- objective contract
    Fact("probabilities into a logits loss", ("WIRE006",), (("        return self.head(h)", "        return self.head(h).softmax(1)"),)),
    Fact("sigmoid before BCEWithLogits", ("WIRE006",), ((LOSS, "        loss = F.binary_cross_entropy_with_logits(torch.sigmoid(model(xb)[:, 0]), (yb > 0).float())\n"),)),
    Fact("probabilities into a logits loss by hand", ("WIRE006",), ((LOSS, "        out = model(xb).softmax(1)\n        loss = (out.logsumexp(1) - out[range(len(yb)), yb]).mean()\n"),)),
    Fact("log-probabilities into a logits loss", ("WIRE006",), (("        return self.head(h)", "        return self.head(h).log_softmax(1)"),)),
    Fact("probabilities into NLLLoss", ("WIRE006", "WIRE007"), (("        return self.head(h)", "        return self.head(h).softmax(1)"), ("nn.CrossEntropyLoss()", "nn.NLLLoss()"))),
    Fact("(N,) against (N,1)", ("WIRE008",), ((LOSS, "        loss = F.mse_loss(model(xb)[:, :1], xb[:, 0])\n"),)),
    Fact("(N,) against (N,1) by hand", ("WIRE008",), ((LOSS, "        loss = ((model(xb)[:, :1] - xb[:, 0]) ** 2).mean()\n"),)),
    Fact("probabilities over the batch by hand", ("WIRE009", "WIRE007"), ((LOSS, "        loss = -model(xb).log_softmax(0)[range(len(yb)), yb].mean()\n"),)),
    Fact("targets a sigmoid cannot reach by hand", ("WIRE007",), ((LOSS, "        loss = (torch.sigmoid(model(xb)[:, 0]) - 3 * xb[:, 0]).abs().mean()\n"),)),
    Fact("every label the same class", ("DATA003",), (("loss = loss_fn(model(xb), yb)\n        loss.b", "loss = loss_fn(model(xb), F.one_hot(yb, 3).max(1)[0])\n        loss.b"),)),
    Fact("MSE on class ids", ("WIRE007", "DATA003"), ((LOSS, "        loss = F.mse_loss(model(xb).max(1).values, yb.float())\n"),)),
    Fact("targets a tanh head cannot reach", ("WIRE007",), ((LOSS, "        loss = F.mse_loss(torch.tanh(model(xb)[:, 0]), 3 * xb[:, 0])\n"),)),
    Fact("targets a ReLU head cannot reach", ("WIRE007",), ((LOSS, "        loss = F.mse_loss(F.relu(model(xb)[:, 0]), 3 * xb[:, 0])\n"),)),
    Fact("reduction sum", ("WIRE007",), (("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(reduction='sum')"),)),
    Fact("class axis last", ("WIRE007",), (("F.cross_entropy(logits.reshape(-1, 30), labels.reshape(-1))", "F.cross_entropy(logits, labels.clamp(0, 10))"), ("text[:, 9:] =", "text = text.repeat(1, 3)[:, :31]\ntext[:, 9:] =")), base=LM),
    Fact("every target ignored", ("TUNE002",), (("    labels[labels == 0] = -100\n", "    labels[:] = -100\n"),), base=LM),
    Fact("padding in the loss", ("TUNE003",), (("    labels[labels == 0] = -100\n", ""),), base=LM),
    Fact("labels not shifted", ("WIRE013",), (("inputs, labels = batch[:, :-1], batch[:, 1:].clone()", "inputs, labels = batch, batch.clone()"),), base=LM),
    Fact("labels shifted twice", ("WIRE013",), (("inputs, labels = batch[:, :-1], batch[:, 1:].clone()", "inputs, labels = batch[:, :-2], batch[:, 2:].clone()"),), base=LM),
    Fact("no causal mask", ("WIRE013",), (("self.encoder(self.embed(t), mask=mask)", "self.encoder(self.embed(t))"),), base=LM),
    Fact("a language model that reads both ways", ("WIRE013",), (("        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)\n        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)\n", "        self.encoder = nn.GRU(32, 16, batch_first=True, bidirectional=True)\n"), ("        mask = torch.full((t.shape[1], t.shape[1]), float(\"-inf\")).triu(1)\n        return self.head(self.encoder(self.embed(t), mask=mask))", "        return self.head(self.encoder(self.embed(t))[0])")), base=LM),
    Fact("a mean over padding", ("WIRE017",), (("        return self.head(self.encoder(self.embed(t), mask=mask))", "        return self.head(self.embed(t).mean(1))"), ("    loss = F.cross_entropy(logits.reshape(-1, 30), labels.reshape(-1))\n", "    loss = F.cross_entropy(logits, inputs[:, 0])\n"), ("text[:, 9:] = torch.where(torch.rand(200, 1) < 0.5, 0, text[:, 9:])", "text[:, 5:] = torch.where(torch.rand(200, 1) < 0.5, 0, text[:, 5:])")), base=LM),
    Fact("labels from 1 to C", ("DATA003",), (("loss = loss_fn(model(xb), yb)\n        loss.b", "loss = loss_fn(torch.cat([model(xb), model(xb)[:, :1]], 1), yb + 1)\n        loss.b"),)),
)  # fmt: skip


def found(fact: Fact, after: int) -> dict[str, Any]:
    """What the report on the program says when it ends so many updates after the fault can be seen."""
    with tempfile.TemporaryDirectory(prefix="facts-") as scratch:
        Path(scratch, "train.py").write_text(fact.program(after), encoding="utf-8")
        ended = in_fork(lambda: _cli(["run", "--format", "json", "-o", "report.json", "--dir", "record", "train.py"]), scratch)
        out = Path(scratch, "report.json")
        if not out.exists():
            raise RuntimeError(f"{fact.name}: {ended['stderr']}")
        report = json.loads(out.read_text(encoding="utf-8"))
    hits = [f for f in report["findings"] if f["code"] in fact.codes]
    causes = report["diagnosis"]["causes"]
    said = hits[0] if hits else {}
    return {
        "codes": sorted({f["code"] for f in hits}),
        "severity": said.get("severity"),
        "message": said.get("message"),
        "where": [w.rpartition("/")[2] for w in said.get("where", [])[:3]],
        "cause": causes[0]["cause"] if causes else None,
        "verdict": report["diagnosis"]["verdict"],
        "others": sorted({f["code"] for f in report["findings"] if f["code"] not in fact.codes and f["severity"] != "info"}),
    }


def measure(fact: Fact) -> dict[str, Any]:
    """The least number of updates from which on every cut finds it; None when the longest does not."""
    seen = {after: found(fact, after) for after in (BAR,)}
    down = [a for a in AFTER if a < BAR][::-1] if seen[BAR]["codes"] else []
    up = [a for a in AFTER if a > BAR] if not seen[BAR]["codes"] else []
    for after in down:
        seen[after] = found(fact, after)
        if not seen[after]["codes"]:
            break
    for after in up:
        seen[after] = found(fact, after)
        if seen[after]["codes"]:
            break
    needed = [a for a in sorted(seen) if seen[a]["codes"]]
    told = seen[max(BAR, needed[0]) if needed else BAR]
    return {"name": fact.name, "first": fact.first, "needs": needed[0] if needed else None, **told}


def table(rows: list[dict[str, Any]]) -> str:
    """The results as a page."""
    soon = sum(r["needs"] is not None and r["needs"] <= BAR for r in rows)
    lines = [
        f"{soon} of {len(rows)} exact facts are found within {BAR} updates of the first moment they can be seen "
        "(`python -m bench.exact_facts`).",
        "",
        "| fact | can be seen from update | found after (updates, at most) | code | names |",
        "|---|---|---|---|---|",
    ]
    for r in rows:
        after = "not found" if r["needs"] is None else str(r["needs"])
        where = ", ".join(f"`{w}`" for w in r["where"])
        lines.append(f"| {r['name']} | {r['first']} | {after} | {' '.join(r['codes'])} | {where} |")
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> None:
    """Measure, and write unless only some were asked for."""
    chosen = [f for f in FACTS if not words or any(w in f.name for w in words)]
    rows = []
    for fact in chosen:
        rows.append(measure(fact))
        print(json.dumps(rows[-1]), flush=True)
    if not words:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "exact_facts.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "exact_facts.md").write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
