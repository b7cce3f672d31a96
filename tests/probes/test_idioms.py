"""Loops as people write them: what is heard as validation is the script's own number, and nothing else is taken for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from probes.watched import watched
from traindx import facts
from traindx.probes.drive.recorder import every_probe
from traindx.run import Run

G = torch.Generator().manual_seed(5)
X = torch.randn(400, 6, generator=G)
Y = (X[:, 0] + X[:, 1] > 0).long()
TRAIN, VAL = slice(0, 300), slice(300, 400)
LETTERS, LONG = 11, 8
TEXT = torch.randint(0, LETTERS, (30_000,), generator=G).cumsum(0) % LETTERS


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))


class Writer(nn.Module):
    """The loss is computed inside; targets are an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(LETTERS, 16), nn.Linear(16, LETTERS)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits = self.head(self.table(idx))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, LETTERS), targets.view(-1), ignore_index=-1)


def pieces(text: Tensor, n: int = 16, hidden: int = 0) -> tuple[Tensor, Tensor]:
    at = torch.randint(len(text) - LONG - 1, (n,))
    y = torch.stack([text[i + 1 : i + 1 + LONG] for i in at])
    y[:, LONG - hidden :] = -1
    return torch.stack([text[i : i + LONG] for i in at]), y


def run_of(loop: Callable[[list[float]], None]) -> tuple[Run, list[float]]:
    said: list[float] = []
    return watched(lambda: loop(said), *every_probe()[0]), said


def both_splits(said: list[float], hidden: int = 0) -> None:
    """A mean over several batches of each split, training first; targets handed to the model."""
    model = Writer()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    parts = {"train": TEXT[:20_000], "val": TEXT[20_000:]}

    @torch.no_grad()
    def estimate() -> dict[str, Tensor]:
        out = {}
        model.eval()
        for name, text in parts.items():
            losses = torch.zeros(5)
            for k in range(5):
                losses[k] = model(*pieces(text, hidden=hidden))[1].item()
            out[name] = losses.mean()
        model.train()
        return out

    for i in range(61):
        if i % 20 == 0:
            told = estimate()
            print(f"step {i}: train loss {told['train']:.4f}, val loss {told['val']:.4f}")
            said.append(told["val"].item())
        _, loss = model(*pieces(parts["train"], hidden=hidden))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def accumulators(said: list[float]) -> None:
    """Sums in a list, divided when they are shown."""
    train = DataLoader(TensorDataset(X[TRAIN], Y[TRAIN]), 50, shuffle=True)
    held = DataLoader(TensorDataset(X[VAL], Y[VAL]), 30)
    model, criterion = net(), nn.CrossEntropyLoss(reduction="none")
    updater = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(4):
        model.train()
        for x, y in train:
            updater.zero_grad()
            criterion(model(x), y).mean().backward()
            updater.step()
        model.eval()
        sums = [0.0, 0.0]
        for x, y in held:
            with torch.no_grad():
                each = criterion(model(x), y)
            for k, v in enumerate((float(each.sum()), y.numel())):
                sums[k] += v
        said.append(sums[0] / sums[1])
        print(f"epoch {epoch + 1}, loss {said[-1]:.4f}")


def two_in_turn(said: list[float]) -> None:
    """One optimizer, then another one on the same model, measured after every stretch."""
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    goal = (X[:, :1] * X[:, 1:2]).tanh()
    first, second = torch.optim.Adam(model.parameters(), 1e-2), torch.optim.LBFGS(model.parameters(), 0.5, max_iter=4)

    def closure() -> Tensor:
        second.zero_grad()
        loss = F.mse_loss(model(X[TRAIN]), goal[TRAIN])
        loss.backward()
        return loss

    for i in range(40):
        if i < 24:
            first.zero_grad()
            F.mse_loss(model(X[TRAIN]), goal[TRAIN]).backward()
            first.step()
        else:
            second.step(closure)
        if i % 8 == 7:
            with torch.no_grad():
                said.append(F.mse_loss(model(X[VAL]), goal[VAL]).item())


def accuracy_alone(said: list[float]) -> None:
    """An evaluation in a function, with labels and no loss."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(6):
        for i in range(0, 300, 60):
            optimizer.zero_grad()
            F.cross_entropy(model(X[i : i + 60]), Y[i : i + 60]).backward()
            optimizer.step()
        with torch.no_grad():
            right = (model(X[VAL]).argmax(1) == Y[VAL]).float().mean().item()
        said.append(right)
        print(f"validation accuracy {right:.3f}")


@pytest.mark.parametrize("loop", [both_splits, accumulators, two_in_turn])
def test_the_validation_loss_is_the_scripts_own_number(loop: Callable[[list[float]], None]) -> None:
    run, said = run_of(loop)
    assert run.series("loss/val").values == pytest.approx(said, rel=1e-4)


def test_an_accuracy_without_a_loss_is_heard() -> None:
    run, said = run_of(accuracy_alone)
    assert facts.accuracy(run, "val").values == pytest.approx(said, abs=6e-4)


def test_targets_that_are_handed_to_the_model_are_no_leak() -> None:
    """Also where some of them are left out, so that the text agrees with them less than they do with themselves."""
    run, _ = run_of(lambda said: both_splits(said, hidden=2))
    assert run.fact("loss.next_target_share") == 1.0 and run.fact("loss.beside_source") is False


def test_a_training_set_that_is_measured_beside_another_one_is_not_validated_on() -> None:
    def loop(said: list[float]) -> None:
        model, train, test = net(), TensorDataset(X[TRAIN], Y[TRAIN]), TensorDataset(X[VAL], Y[VAL])
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)

        @torch.inference_mode()
        def measure(part: TensorDataset) -> float:
            model.eval()
            losses = [F.cross_entropy(model(x), y).item() for x, y in DataLoader(part, 100, shuffle=True)]
            model.train()
            return sum(losses) / len(losses)

        for _ in range(12):
            for x, y in DataLoader(train, 50, shuffle=True):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        print(measure(train), measure(test))

    run, _ = run_of(loop)
    assert run.fact("data.same_set") is None and not run.fact("data.shared")


def test_text_that_is_written_now_and_then_does_not_make_an_agent() -> None:
    def loop(said: list[float]) -> None:
        model = Writer()
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for i in range(60):
            _, loss = model(*pieces(TEXT))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 20 == 19:
                letter = TEXT[:1].view(1, 1)
                for _ in range(60):  # with a graph that nobody needs
                    letter = model(letter)[0][:, -1:].argmax(-1)

    assert run_of(loop)[0].fact("acts") is None


def test_a_model_that_holds_its_data_is_no_agent() -> None:
    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self) -> Tensor:
            return F.log_softmax(self.net(X), -1)

    def loop(said: list[float]) -> None:
        model = Graph()
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for epoch in range(60):
            model.train()
            optimizer.zero_grad()
            F.nll_loss(model()[TRAIN], Y[TRAIN]).backward()
            optimizer.step()
            with torch.no_grad():
                model.eval()
                found = model()
                print(epoch, (found[VAL].argmax(1) == Y[VAL]).float().mean().item())

    assert run_of(loop)[0].fact("acts") is None


class Later(nn.Module):
    """Makes its layers when it is first called, as Keras does without an input shape."""

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "body"):
            self.body = nn.Sequential(nn.Linear(x.shape[1], 16), nn.ReLU(), nn.Linear(16, 2))
        out: Tensor = self.body(x)
        return out


def test_a_model_that_makes_its_layers_at_the_first_call_is_known_from_the_second() -> None:
    """It was taken for a module without parameters for good: its bias for a matrix, its first batch for validation."""

    def loop(said: list[float]) -> None:
        model = Later()
        model(X[:4])
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for i in range(30):
            optimizer.zero_grad()
            F.cross_entropy(model(X[TRAIN][i * 10 : i * 10 + 10]), Y[TRAIN][i * 10 : i * 10 + 10]).backward()
            optimizer.step()

    run, _ = run_of(loop)
    assert run.fact("model.class") == "Later" and set(run.fact("model.param_shapes")) >= {"body.0.weight", "body.2.bias"}
