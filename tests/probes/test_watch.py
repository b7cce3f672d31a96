"""`traindx.watch`: the handle in a user's own program."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import traindx
from probes.conftest import patched_names
from traindx.errors import UsageError
from traindx.probes.launch.early_stopping import Stopping
from traindx.stats import overfit_na


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINDX_DIR", raising=False)


def parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    return model, torch.optim.Adam(model.parameters(), 1e-2), torch.randn(24, 4), torch.randint(0, 2, (24,))


def step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def test_the_example_of_the_readme(tmp_path):
    model, optimizer, x, y = parts()
    batches = [(x[i : i + 8], y[i : i + 8]) for i in range(0, 24, 8)]
    with traindx.watch(model, optimizer, dir=tmp_path / "rec") as dx:
        for _ in range(10):
            for a, b in dx.batches(batches):
                loss = step(model, optimizer, a, b)
                dx.log(accuracy=torch.tensor(0.5), own=loss.detach() * 2)
    run = dx.run()
    assert len(run["loss/train"]) == 30 and len(run["metric/train/accuracy"]) == 30
    assert run["metric/train/own"].values == pytest.approx(2 * run["loss/train"].values, rel=1e-6)
    assert run["epoch"].values[-1] == 9
    assert (tmp_path / "rec" / "run.json").exists()
    assert dx.diagnosis.verdict and "30 steps" in str(dx.summary())
    assert patched_names() == []


def test_validation_in_a_block_whatever_it_looks_like():
    model, optimizer, x, y = parts()
    with traindx.watch(model, optimizer) as dx:
        for _ in range(4):
            step(model, optimizer, x, y)
            with dx.validation():
                value = F.cross_entropy(model(x + 1), y)
                dx.log(f1=0.25)
    run = dx.run()
    assert run["loss/val"].last == pytest.approx(value.item())
    assert run["loss/val"].steps.tolist() == [0, 1, 2, 3]
    assert run["metric/val/f1"].values.tolist() == [0.25] * 4


def test_open_it_can_be_asked_at_any_time():
    model, optimizer, x, y = parts()
    dx = traindx.watch(model, optimizer)
    for _ in range(3):
        step(model, optimizer, x, y)
    assert len(dx.run()["loss/train"]) == 3
    step(model, optimizer, x, y)
    assert len(dx.run()["loss/train"]) == 4
    dx.close()
    dx.close()
    step(model, optimizer, x, y)
    assert len(dx.run()["loss/train"]) == 4 and "closed" in repr(dx)


def test_watching_the_same_model_again_closes_the_first_watch():
    model, optimizer, x, y = parts()
    first = traindx.watch(model, optimizer)
    second = traindx.watch(model, optimizer)
    step(model, optimizer, x, y)
    second.close()
    assert not first.open and len(first.run().series("loss/train")) == 0
    assert len(second.run()["loss/train"]) == 1 and patched_names() == []


def test_two_models_in_one_watch_and_two_watches_side_by_side(tmp_path):
    a, oa, x, y = parts()
    b, ob, _, _ = parts()
    with traindx.watch(a, oa, dir=tmp_path / "a") as one, traindx.watch(b, ob, dir=tmp_path / "b") as two:
        for i in range(6):
            step(a, oa, x, y)
            if i % 2:
                step(b, ob, x, y)
    assert len(one.run()["grad_norm"]) == 6 and len(two.run()["grad_norm"]) == 3
    with traindx.watch(a, b, oa, ob, dir=tmp_path / "c") as both:
        for _ in range(3):
            loss = F.cross_entropy(a(x), y) + F.cross_entropy(b(x), y)
            loss.backward()
            oa.step()
            ob.step()
            oa.zero_grad()
            ob.zero_grad()
    run = both.run()
    assert run.fact("optimizer.count") == 2
    assert len(run["grad_norm/param"].names) == 8


def test_an_exception_in_the_block_is_told_and_passes():
    model, optimizer, x, y = parts()
    with pytest.raises(ZeroDivisionError):
        with traindx.watch(model, optimizer) as dx:
            step(model, optimizer, x, y)
            1 / 0
    run = dx.run()
    assert run.fact("ended") == "exception" and run.fact("exception")["type"] == "ZeroDivisionError"
    assert run.fact("exception")["file"].endswith("test_watch.py")


def test_lines_go_to_stderr(capfd):
    model, optimizer, x, y = parts()
    with traindx.watch(model, optimizer, log_every=5):
        for _ in range(10):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            optimizer.step()
    out, err = capfd.readouterr()
    lines = err.strip().splitlines()
    assert out == "" and len(lines) == 2
    assert lines[1].startswith("traindx: step 10: loss 0.")
    assert all(word in lines[1] for word in ("[CLIPPED]", "clipped 100 %", "lr 0.01"))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda m, o: traindx.watch(m, "adam"), "str"),
        (lambda m, o: traindx.watch(m, o, budget=2), "budget"),
        (lambda m, o: traindx.watch(m, o, log_every=-1), "log_every"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call, word):
    model, optimizer, _, _ = parts()
    with pytest.raises(UsageError, match=word):
        call(model, optimizer)


def test_facts_of_the_user_are_kept():
    model, optimizer, x, y = parts()
    with traindx.watch(model, optimizer, facts={"rl": True}) as dx:
        step(model, optimizer, x, y)
    assert dx.run().fact("rl") is True and dx.run().fact("world_size") == 1


def stops(val, evaluations=40):
    heard, asked = Stopping(), []
    for i in range(10 * evaluations):
        heard.heard({"loss/train": 1.0 / (1 + 0.1 * i)})
        if i % 10 == 9:
            heard.heard({"loss/val": float(val[i // 10])})
        asked.append(heard.now())
    return asked[-1]


def test_stopping_knows_noise_from_rise():
    noise = np.random.default_rng(0).normal(0, 0.01, 40)
    rising = 0.5 + 0.02 * np.abs(np.arange(40) - 15) + noise
    assert not stops(0.5 + noise) and stops(rising) and not stops(rising, 16)


def test_asking_whether_to_stop_reads_no_record_and_judges_each_evaluation_once(monkeypatch):
    judged = []
    monkeypatch.setattr(
        "traindx.probes.launch.early_stopping.overfit_na", lambda *a, **k: judged.append(1) or overfit_na(*a, **k)
    )
    monkeypatch.setattr("traindx.record.read", lambda *a: pytest.fail("the record was read"))
    model, optimizer, x, y = parts()
    with traindx.watch(model, optimizer) as dx:
        for i in range(60):
            step(model, optimizer, x, y)
            if i % 5 == 4:
                with dx.validation(), torch.no_grad():
                    F.cross_entropy(model(x), y)
            assert dx.should_stop is False
    assert 0 < len(judged) <= 12 - 7


def test_a_forgotten_close_leaves_a_readable_record(tmp_path):
    import subprocess
    import sys

    text = (
        "import torch, traindx\nm = torch.nn.Linear(2, 1); o = torch.optim.SGD(m.parameters(), 0.1)\n"
        "dx = traindx.watch(m, o, dir='rec')\n"
        "for _ in range(7):\n    loss = m(torch.randn(4, 2)).pow(2).mean(); o.zero_grad(); loss.backward(); o.step()\n"
    )
    subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True, timeout=900)
    assert len(traindx.diagnose(tmp_path / "rec").run["loss/train"]) == 7
