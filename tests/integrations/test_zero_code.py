"""Arrivals, foreign optimizers and guests, without any framework installed."""

from __future__ import annotations

import gc
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import traindx
from traindx.integrations import lightning_callbacks, zero_code
from traindx.integrations.fit import Fit
from traindx.probes.drive.recorder import Recorder
from traindx.probes.hear.imported import when_imported
from traindx.probes.launch.attach import attach, detach


def test_an_arrival_is_told_once_after_the_module_has_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_framework.py").write_text("value = 7\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[int] = []
    before = list(sys.meta_path)
    off = when_imported("late_framework", lambda: seen.append(sys.modules["late_framework"].value))
    import late_framework  # type: ignore[import-not-found]

    assert seen == [7] and late_framework.value == 7
    off()
    assert sys.meta_path == before
    when_imported("late_framework", lambda: seen.append(0))
    assert seen == [7, 0]


def test_waiting_can_be_called_off() -> None:
    before = list(sys.meta_path)
    offs = [when_imported("never_there", lambda: None), when_imported("never_there", lambda: None)]
    for off in offs:
        off()
    assert sys.meta_path == before
    with pytest.raises(ModuleNotFoundError):
        import never_there  # type: ignore[import-not-found] # noqa: F401


def test_what_was_put_into_frameworks_is_taken_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every framework whose classes are changed for the time of the watch, by stand-ins."""
    kinds = {
        ("fastai.learner", "Learner"): "__init__",
        ("keras.src.backend.torch.trainer", "TorchTrainer"): "fit",
        ("skorch.net", "NeuralNet"): "get_default_callbacks",
        ("ignite.engine.engine", "Engine"): "run",
    }
    for (module, kind), method in kinds.items():
        there = types.ModuleType(module)
        setattr(there, kind, type(kind, (), {method: lambda self, *args, **kwargs: None}))
        monkeypatch.setitem(sys.modules, module, there)
    trainer = types.ModuleType("transformers.trainer")
    trainer.DEFAULT_CALLBACKS = []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.trainer", trainer)
    monkeypatch.setattr(zero_code, "_ours", lambda name: name)

    def now() -> list[Any]:
        methods = [vars(getattr(sys.modules[module], kind))[method] for (module, kind), method in kinds.items()]
        return [*methods, list(trainer.DEFAULT_CALLBACKS)]  # type: ignore[attr-defined]

    before = now()
    observer = attach(Recorder())
    disarm = zero_code.arm()
    assert all(one is not other for one, other in zip(now(), before, strict=True)) and now()[-1] == ["huggingface"]
    disarm()
    detach(observer)
    assert now() == before and not zero_code.troubles


class Optimizer:
    """An optimizer of somebody's own, shaped like that of fastai."""

    def __init__(self, params: list[Any], lr: float) -> None:
        self.param_lists, self.hypers = [params], [{"lr": lr, "wd": 0.01}]

    def step(self) -> None:
        with torch.no_grad():
            for p in self.param_lists[0]:
                p -= self.hypers[0]["lr"] * p.grad

    def zero_grad(self) -> None:
        for p in self.param_lists[0]:
            p.grad = None


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> type:
    module = types.ModuleType("fastai.optimizer")
    kind = type("Optimizer", (Optimizer,), {"step": Optimizer.step})
    module.Optimizer = kind  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastai.optimizer", module)
    return kind


def train(optimizer: Any, model: nn.Module, steps: int = 5) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(torch.ones(4, 3)), torch.zeros(4, 1)).backward()
        optimizer.step()


def test_steps_of_an_optimizer_that_is_not_torchs_are_seen(framework: type, tmp_path: Path) -> None:
    original = framework.step  # type: ignore[attr-defined]
    model = nn.Linear(3, 1)
    optimizer = framework(list(model.parameters()), 0.1)
    with traindx.watch(model, dir=tmp_path, budget=None) as dx:
        train(optimizer, model)
    run = dx.run()
    assert len(run.series("loss/train")) == 5 and run.series("lr").values.tolist() == pytest.approx([0.1] * 5)
    assert run.matrix("update_ratio/param").names == ("weight", "bias")
    assert run.fact("optimizer.name") == "Optimizer" and run.fact("optimizer.fresh_at_step") is None
    assert framework.step is original  # type: ignore[attr-defined]


def test_a_foreign_optimizer_is_not_kept_alive(framework: type, tmp_path: Path) -> None:
    import weakref

    model = nn.Linear(3, 1)
    with traindx.watch(model, dir=tmp_path):
        optimizer = framework(list(model.parameters()), 0.1)
        train(optimizer, model)
        gone = weakref.ref(optimizer)
        del optimizer
        gc.collect()
        assert gone() is None


def test_a_callback_in_a_program_that_is_observed_as_a_whole_is_its_guest(tmp_path: Path) -> None:
    recorder = Recorder(budget=None)
    observer = attach(recorder)
    try:
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        fit, second = Fit(dir=tmp_path / "never"), Fit(dir=tmp_path / "never")
        fit.begin(model, optimizer)
        second.begin(model, optimizer)
        train(optimizer, model)
        fit.tell("val", {"score": 0.5})
        second.tell("val", {"score": 0.7})
        train(optimizer, model, 1)
        assert len(fit.run().series("loss/train")) == 6
        fit.close()
    finally:
        detach(observer)
        recorder.close()
    assert recorder.sink.run().series("metric/val/score").values.tolist() == [0.5]
    assert not (tmp_path / "never").exists()


def test_lightning_gets_no_callback_from_a_plain_watch(tmp_path: Path) -> None:
    with traindx.watch(nn.Linear(1, 1), dir=tmp_path):
        assert "lightning" in sys.modules or lightning_callbacks_are_none()


def lightning_callbacks_are_none() -> bool:
    sys.modules["traindx.integrations.lightning"] = types.ModuleType("traindx.integrations.lightning")
    sys.modules["traindx.integrations.lightning"].Traindx = object  # type: ignore[attr-defined]
    try:
        return lightning_callbacks() == []
    finally:
        del sys.modules["traindx.integrations.lightning"]


def test_arming_waits_for_frameworks_and_imports_none() -> None:
    before, path = set(sys.modules), list(sys.meta_path)
    disarm = zero_code.arm()
    assert set(sys.modules) == before
    disarm()
    assert sys.meta_path == path and zero_code.troubles == []


def test_a_framework_of_another_shape_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skorch.net", types.ModuleType("skorch.net"))
    zero_code.arm()()
    assert "NeuralNet" in zero_code.troubles.pop()


def three() -> int:
    return 3


class Holder:
    """Scripted by name: `three` is looked up in the frame that calls torch.jit.script."""

    def __init__(self) -> None:
        self.value: int = three()


def test_scripting_finds_the_names_of_its_caller_while_watched(tmp_path: Path) -> None:
    with traindx.watch(nn.Linear(1, 1), dir=tmp_path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.jit.script(Holder)().value == 3


def one_ahead(loader: Any) -> Any:
    """As accelerate does it: a batch is fetched before the one at hand is used."""
    batches = iter(loader)
    held = next(batches)
    for following in batches:
        yield held
        held = following
    yield held


def test_the_last_batch_of_a_loader_that_fetches_ahead_belongs_to_its_evaluation(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(80, 3)
    y = x.sum(1, keepdim=True)
    train_data, val_data = (torch.utils.data.TensorDataset(x[part], y[part]) for part in (slice(0, 40), slice(40, 80)))
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with traindx.watch(model, optimizer, dir=tmp_path) as dx:
        for _ in range(2):
            for a, b in one_ahead(torch.utils.data.DataLoader(train_data, 8)):
                optimizer.zero_grad()
                nn.functional.mse_loss(model(a), b).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                losses = [
                    float(nn.functional.mse_loss(model(a), b)) for a, b in one_ahead(torch.utils.data.DataLoader(val_data, 20))
                ]
            model.train()
    val = dx.run().series("loss/val")
    assert len(val) == 2 and val.values[-1] == pytest.approx(sum(losses) / 2, rel=1e-5)


def test_a_fit_that_nobody_coded_says_its_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit = Fit(announce=True, dir=tmp_path / "record")
    fit.begin(model, optimizer)
    train(optimizer, model)
    fit.close()
    said = capsys.readouterr().err
    assert f"traindx: {fit.diagnosis.verdict}: " in said and str(tmp_path / "record") in said
