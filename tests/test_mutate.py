"""The mutator: every operator finds its place in any program, changes what was meant, and the result runs."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from pathlib import Path

import pytest
from clinic import mutate
from clinic.case import HERE
from clinic.mutate import FAULTS, Mutant, Source, differs, fault, mutants, places

from traindx import cause as causes_
from traindx.rule import catalogue

OURS = sorted([*(HERE / "bases").glob("*.py"), *(HERE / "cases" / "healthy").glob("*.py")])
# idioms that our own programs do not have, in one small program
PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(192, 6)
y = (x[:, 0] > 0).long()
train_set, test_set = TensorDataset(x[:128], y[:128]), TensorDataset(x[128:], y[128:])
train_loader = DataLoader(train_set, batch_size=16, shuffle=True)
test_loader = DataLoader(test_set, batch_size=16)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 12), nn.Linear(12, 12)])
        self.norm, self.drop, self.out = nn.BatchNorm1d(12), nn.Dropout(0.1), nn.Linear(12, 2)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return F.log_softmax(self.out(self.drop(self.norm(x))), dim=1)


model = Net()
criterion = nn.NLLLoss(ignore_index=7)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4)
accumulate = 1
for epoch in range(20):
    model.train()
    total = 0.0
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss = loss / accumulate
        kl = (outputs**2).mean() * 0.0
        loss = loss + kl
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
    model.eval()
    hits = 0
    with torch.no_grad():
        for inputs, labels in test_loader:
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            hits += (outputs.argmax(1) == labels).sum().item()
    print(epoch, round(float(total), 5), round(loss.item(), 5), hits / len(test_loader.dataset))
print([round(float(p.detach().sum()), 4) for p in model.parameters()])
"""
LOGITS = PROGRAM.replace(
    "F.log_softmax(self.out(self.drop(self.norm(x))), dim=1)", "self.out(self.drop(self.norm(x)))"
).replace("nn.NLLLoss(ignore_index=7)", "nn.CrossEntropyLoss()")
SQUARES = LOGITS.replace("nn.CrossEntropyLoss()", "nn.MSELoss()").replace(
    "criterion(outputs, labels)", "criterion(outputs[:, :1], inputs[:, :1])"
)
BINARY = SQUARES.replace("nn.MSELoss()", "nn.BCEWithLogitsLoss()").replace("inputs[:, :1])", "labels[:, None].float())")
ADAM = LOGITS.replace("SGD(model.parameters(), lr=0.1, momentum=0.5)", "Adam(model.parameters(), lr=0.01)")


def ran(text: str) -> str:
    """What a program prints, or the exception it ends with."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(text, "program.py", "exec"), {"__name__": "__main__"})
        except Exception as why:
            return f"{out.getvalue()}{type(why).__name__}: {why}"
    return out.getvalue()


def test_there_are_enough_operators_and_each_has_a_truth() -> None:
    known, causes = {*catalogue(), "LOSS013"}, set(causes_.catalogue())
    assert len(FAULTS) >= 45
    assert len({f.name for f in FAULTS}) == len(FAULTS)
    for f in FAULTS:
        assert f.condition in f.codes, f.name
        assert set(f.codes) <= known, (f.name, set(f.codes) - known)
        assert f.causes and f.verdicts and f.least in ("info", "warning")
        assert set(f.causes) & causes, f.name


def test_every_operator_finds_its_place_in_our_own_programs() -> None:
    found: Counter[str] = Counter()
    for path in OURS:
        for m in mutants(path.read_text(encoding="utf-8")):
            assert not differs(m), (path.stem, m.operator, differs(m))
            found[m.operator] += 1
    assert len(OURS) >= 90
    rare = {
        "loss_kept",
        "accumulation_undivided",
        "probabilities_into_nll",
        "validates_on_training",
        "divided_by_batches",
        "divergence_weighs",
    }
    assert {f.name for f in FAULTS if found[f.name] < 2} <= rare
    here = {m.operator for m in mutants(PROGRAM)}
    assert rare <= here


PROGRAMS = {"PROGRAM": PROGRAM, "LOGITS": LOGITS, "SQUARES": SQUARES, "BINARY": BINARY, "ADAM": ADAM}


@pytest.mark.parametrize("name", PROGRAMS)
def test_mutants_run_and_do_something_else(name: str) -> None:
    """Each operator is run in the first of these programs that it finds its place in."""
    earlier = [text for key, text in PROGRAMS.items() if list(PROGRAMS).index(key) < list(PROGRAMS).index(name)]
    tried = {m.operator for text in earlier for m in mutants(text)}
    told = ran(PROGRAMS[name])
    assert "Error" not in told
    silent = {"padding_counts", "accumulation_undivided", "divergence_weighs", "loss_kept", "graphs_in_evaluation"}
    made = [m for m in mutants(PROGRAMS[name]) if m.operator not in tried]
    assert made
    for m in made:
        assert not differs(m), (m.operator, differs(m))
        said = ran(m.text)
        assert "Error" not in said or m.operator in ("targets_flat", "cut_before_the_loss"), (m.operator, said[-300:])
        if m.operator not in silent and not (m.operator == "targets_flat" and name != "SQUARES"):
            assert said != told, m.operator


def test_the_guilty_line_is_the_one_that_changed() -> None:
    for m in mutants(LOGITS):
        before, after = LOGITS.splitlines(), m.text.splitlines()
        changed = [k for k, row in enumerate(after, 1) if k > len(before) or row != before[k - 1]]
        assert m.line in changed, (m.operator, m.line, changed[:3])


def test_a_place_is_a_line_of_the_guilty_statement_or_of_the_block_that_lacks_a_call() -> None:
    assert all(m.line in places(m) for m in mutants(LOGITS))
    [rate] = mutants(LOGITS, "rate_times_300")
    assert all("optim" in rate.text.splitlines()[k - 1] for k in places(rate)) and len(places(rate)) == 1
    [gone] = mutants(LOGITS, "zero_grad_gone")
    rows = [gone.text.splitlines()[k - 1].strip() for k in sorted(places(gone))]
    assert rows[0] == "pass" and any(".backward()" in row for row in rows) and not any("Adam(" in row for row in rows)


def test_a_mutant_that_changes_more_than_it_says_is_refused() -> None:
    [good] = mutants(LOGITS, "zero_grad_gone")
    more = Mutant(good.operator, good.text.replace("scheduler.step()", "pass"), good.line, good.before, good.change)
    assert "calls changed" in differs(more)
    assert differs(Mutant(good.operator, good.before, good.line, good.before, good.change)) == "the same program"
    assert "compile" in differs(Mutant(good.operator, "for", 1, good.before, good.change))


def test_places_are_found_by_what_is_called_not_by_names() -> None:
    text = LOGITS.replace("optimizer", "adamski").replace("criterion", "how_bad").replace("model", "brain")
    assert {m.operator for m in mutants(text)} == {m.operator for m in mutants(LOGITS)}


def test_an_evaluation_is_told_from_training() -> None:
    src = Source(LOGITS)
    assert len(src.losses()) == 2
    assert [src.evaluates(c) for c in src.losses()] == [False, True]
    assert len(src.forwards(training=True)) == len(src.forwards(training=False)) == 1


def test_the_coin_sets_two_fifths_aside_and_stays_where_it_fell() -> None:
    falls = [mutate.coin(p.stem, f.name) for p in OURS for f in FAULTS]
    assert 0.35 < sum(falls) / len(falls) < 0.45
    assert mutate.coin("nanogpt", "zero_grad_gone") == mutate.coin("nanogpt", "zero_grad_gone")
    assert fault("eval_gone").falsifies
    assert Path(mutate.__file__).exists()
