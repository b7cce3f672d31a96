"""The line that decided a value, found from the line that uses it."""

from __future__ import annotations

from textwrap import dedent

import pytest
from torch import nn, optim

from probes.watched import watched
from runs import a_run
from traindx.finding import Evidence
from traindx.probes.read.model.origins import PARTS, Origins, origins
from traindx.rule import catalogue, lines

SCRIPTS = {
    "a key of a dictionary": (
        "rate",
        """
        cfg = {"epochs": 3,
               "lr": 0.5}  # made
        opt = SGD(net.parameters(), lr=cfg["lr"])  # used
        """,
    ),
    "an option of the command line": (
        "rate",
        """
        parser.add_argument("-l", "--learning-rate", type=float, default=0.5)  # made
        args = parser.parse_args()
        opt = SGD(net.parameters(), args.learning_rate)  # used
        """,
    ),
    "an argument of the script's own function": (
        "rate",
        """
        def train(net, lr):
            opt = SGD(net.parameters(), lr=lr)  # used
        fast = 0.5  # made
        train(net, fast)
        """,
    ),
    "a group of the optimizer": (
        "rate",
        """
        cfg = dict(head=0.5)  # made
        opt = SGD([{"params": net.parameters(), "lr": cfg["head"]}])  # used
        """,
    ),
    "a rate that is set again later": (
        "rate",
        """
        opt = SGD(net.parameters(), lr=0.1)  # used
        for group in opt.param_groups:
            group["lr"] = 5.0  # made
        """,
    ),
    "a rate that is multiplied later": (
        "rate",
        """
        opt = SGD(net.parameters(), lr=0.1)  # used
        for group in opt.param_groups:
            group["lr"] *= 50  # made
        """,
    ),
    "a rate that is updated later": (
        "rate",
        """
        opt = SGD(net.parameters(), lr=0.1)  # used
        [g.update(lr=5.0) for g in opt.param_groups]  # made
        """,
    ),
    "answers that are compared": (
        "answers",
        """
        for images, labels in test_loader:
            outputs = net(images)
            _, predicted = torch.max(outputs.data, 1)  # made
            correct += (predicted == labels).sum().item()  # used
        """,
    ),
    "weights written by hand": (
        "written",
        """
        def soften(m):
            nn.init.constant_(m.weight, 0.5)
        net.apply(soften)
        self.data = read()
        opt = SGD(net.parameters(), lr=0.1)  # used
        opt.param_groups[0]["params"][0].data.view(-1)[0] = float("nan")  # made
        for x in loader:
            loss(net(x)).backward()
            target.weight.data.copy_(net.weight)
        """,
    ),
    "a number under a condition": (
        "rate",
        """
        KICK = 5.0  # made
        opt = SGD(net.parameters(), lr=0.1)  # used
        for step in range(9):
            opt.param_groups[0]["lr"] = KICK if step < 3 else 0.1
        """,
    ),
    "a field of a class of settings": (
        "rate",
        """
        class Settings:
            rate: float = 0.5  # made
        opt = SGD(net.parameters(), Settings().rate)  # used
        """,
    ),
    "a criterion": (
        "criterion",
        """
        criterion = CrossEntropyLoss(reduction="sum")  # made
        for x, y in loader:
            loss = criterion(net(x), y).mean()  # used
        """,
    ),
    "labels through loader and data set": (
        "target",
        """
        flags = annotate(stars)  # made
        loader = DataLoader(TensorDataset(x, flags), 32)
        for step, (a, b) in enumerate(loader):
            loss = cross_entropy(net(a), b.long())  # used
        """,
    ),
    "what the script's own function returns": (
        "figure",
        """
        def evaluate():
            return hits // total  # made
        for epoch in range(3):
            accuracy = evaluate()
            print(epoch, accuracy)  # used
        """,
    ),
    "a loss that is put together": (
        "sum",
        """
        loss = cross_entropy(net(x), y)
        loss = loss * 400  # made
        loss.backward()  # used
        """,
    ),
    "a weight with a name": (
        "weight",
        """
        BETA = 20.0  # made
        loss = rec + BETA * kl
        loss.backward()  # used
        """,
    ),
    "a batch drawn once": (
        "drawn",
        """
        x, y = next(iter(loader))  # made
        loss = cross_entropy(net(x), y)  # used
        """,
    ),
    "the condition over an evaluation": (
        "guard",
        """
        EVERY = 1  # made
        if step % EVERY == 0:
            net(val_x)  # used
        """,
    ),
    "a split": (
        "given",
        """
        train_x, val_x = x[:900], x[900:]  # made
        out = net(val_x[:64])  # used
        """,
    ),
    "a mask": (
        "mask",
        """
        WIDTH = 1  # made
        hidden = torch.ones(9, 9).triu(WIDTH) if old else torch.triu(torch.ones(9, 9), WIDTH)
        loss = cross_entropy(net(x), y)  # used
        """,
    ),
    "the class that is left out": (
        "ignored",
        """
        EOS = 1  # made
        PAD = EOS
        criterion = CrossEntropyLoss(ignore_index=PAD)
        loss = criterion(net(x), y)  # used
        """,
    ),
    "a plan": (
        "horizon",
        """
        PLANNED = 10 * 40  # made
        plan = CosineAnnealingLR(opt, T_max=PLANNED)  # used
        """,
    ),
}


def place(text: str, mark: str) -> str:
    return f"a.py:{next(i for i, row in enumerate(text.splitlines(), 1) if row.endswith(f'# {mark}'))}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_deciding_line_is_found(name: str) -> None:
    part, script = SCRIPTS[name]
    text = dedent(script)
    assert origins({PARTS[part][0]: place(text, "used")}, text).get(part) == place(text, "made")


@pytest.mark.parametrize(
    "script",
    [
        "opt = SGD(net.parameters(), lr=0.1)  # used",  # it stands there itself
        "opt = SGD(net.parameters(), lr=pick())  # used",
        "opt = SGD(net.parameters(), lr=lr)  # used",  # bound nowhere
        "lr = lr\nopt = SGD(net.parameters(), lr=lr)  # used",
        "def f(lr):\n    f(lr)\n    opt = SGD(net.parameters(), lr=lr)  # used",  # for ever
    ],
)
def test_what_cannot_be_followed_ends_the_walk(script: str) -> None:
    found = origins({"optimizer": place(script, "used")}, script).get("rate")
    assert found in (None, "a.py:1", "a.py:2")


def test_a_run_ends_with_the_fact() -> None:
    def loop() -> None:
        import torch

        rates = {"lr": 0.05}  # decided here
        model = nn.Linear(3, 1)
        optimizer = optim.SGD(model.parameters(), lr=rates["lr"])
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 3)).pow(2).mean().backward()
            optimizer.step()

    with open(__file__, encoding="utf-8") as file:
        decided = next(i for i, row in enumerate(file, 1) if row.endswith('"lr": 0.05}  # decided here\n'))
    assert watched(loop, Origins()).fact("code.origins")["rate"].endswith(f"test_origins.py:{decided}")


def test_findings_name_the_line_that_uses_and_the_line_that_decided() -> None:
    run = a_run({}, facts={"code.sites": {"optimizer": "t.py:9"}, "code.origins": {"rate": "t.py:2", "drawn": "t.py:7"}})
    assert lines(run, "optimizer rate") == ("t.py:9", "t.py:2")
    assert lines(run, "optimizer sampler|drawn") == ("t.py:9", "t.py:7")
    assert lines(run, "nothing") == ()
    rule = catalogue()["OPTM002"]
    assert rule._line(run, Evidence()) == ("t.py:9", "t.py:2")
    assert rule._line(run, Evidence(where=("t.py:5",))) == ("t.py:2",)
