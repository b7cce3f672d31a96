"""Capsules: whole or absent, checked before they are believed; and the step they hold can be made again."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from click.testing import CliRunner
from torch import nn

import traindx
from traindx.cli import cli
from traindx.errors import NothingReadable, UsageError
from traindx.forensics import capsule as capsules
from traindx.forensics.capsule import Capsule, NotSaved, load, save
from traindx.forensics.replay import replay
from traindx.trials.task import Task


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.relu(self.body(x)))  # here


def _data() -> list[Any]:
    torch.manual_seed(1)
    return [(torch.randn(8, 4), torch.randn(8, 2)) for _ in range(3)]


def make_task() -> Task:
    torch.manual_seed(5)
    net = Net()
    return Task(net, nn.functional.mse_loss, train=_data(), optimizer=torch.optim.SGD(net.parameters(), lr=0.1))


def _broken_run(folder: Path, *, capture: bool) -> Path:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    with traindx.watch(net, optimizer, dir=folder, capture_batch=capture) as dx:
        for step, (x, y) in enumerate(dx.batches(_data())):
            loss = nn.functional.mse_loss(net(x), y) if step else net.body(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert dx.dir is not None
    return next(iter(dx.dir.glob("capsules/capsule-*")))


def _small() -> Capsule:
    state = {
        "models": [{"w": torch.randn(3, 2)}],
        "random": {"torch": torch.get_rng_state()},
        "x": {1: (2.5, None, "a", [True])},
    }
    return Capsule(7, state, [torch.arange(4), "word"], {"note": "x"}, [[6, {"loss/train": 1.0}]])


def test_a_capsule_comes_back_as_it_was(tmp_path: Path) -> None:
    held = _small()
    back = load(save(held, tmp_path))
    assert (back.step, back.about["note"], back.signals) == (7, "x", [[6, {"loss/train": 1.0}]])
    assert torch.equal(back.state["models"][0]["w"], held.state["models"][0]["w"])
    assert back.state["x"] == {1: (2.5, None, "a", [True])}
    assert torch.equal(back.batch[0], torch.arange(4))


def test_only_the_last_ones_are_kept(tmp_path: Path) -> None:
    for step in range(5):
        save(Capsule(step, {"models": []}), tmp_path, keep=2)
    assert [p.name[:17] for p in sorted(tmp_path.iterdir())] == ["capsule-000000003", "capsule-000000004"]


def test_too_large_a_state_and_a_full_disk_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotSaved, match="MB"):
        save(_small(), tmp_path, most_bytes=8)
    monkeypatch.setattr(capsules, "SPARE_BYTES", 1 << 62)
    with pytest.raises(NotSaved, match="room"):
        save(_small(), tmp_path)
    assert not list(tmp_path.glob("capsule-*"))


@pytest.mark.parametrize("point", ["save_file", "_hash", "_sync", "_plain"])
def test_a_capsule_that_is_interrupted_is_absent(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(safetensors.torch if point == "save_file" else capsules, point, stop)
    with pytest.raises(OSError, match="no space"):
        save(_small(), tmp_path)
    assert not list(tmp_path.iterdir())


def _flip(path: Path) -> None:
    data = bytearray((path / "state.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "state.safetensors").write_bytes(bytes(data))


def _manifest(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        found = json.loads((path / "capsule.json").read_text())
        change(found)
        (path / "capsule.json").write_text(json.dumps(found))

    return apply


def _huge_header(path: Path) -> None:
    data = struct.pack("<Q", 1 << 60) + b"x" * 64
    (path / "state.safetensors").write_bytes(data)
    _manifest(lambda m: m["files"]["state.safetensors"].update(bytes=len(data)))(path)


def _link(path: Path) -> None:
    (path / "state.safetensors").rename(path.parent / "elsewhere")
    (path / "state.safetensors").symlink_to(path.parent / "elsewhere")


def _pickle(path: Path) -> None:
    import hashlib
    import pickle

    data = pickle.dumps({"w": 1})
    (path / "state.safetensors").write_bytes(data)
    said = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    _manifest(lambda m: m["files"].update({"state.safetensors": said}))(path)


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a flipped bit": _flip,
    "another path": _manifest(lambda m: m["files"].update({"../../etc/passwd": {"sha256": "", "bytes": 1}})),
    "no state": _manifest(lambda m: m["files"].clear()),
    "a huge header": _huge_header,
    "a link": _link,
    "a pickle": _pickle,
    "another schema": _manifest(lambda m: m.update(schema="traindx.capsule/99")),
    "a tensor that is not there": _manifest(
        lambda m: m["trees"].update(state={"dict": [[{"value": "models"}, {"tensor": "q"}]]})
    ),
    "a tree that is none": _manifest(lambda m: m["trees"].update(state={"call": "os.system"})),
    "deep nesting": lambda path: (path / "capsule.json").write_text("[" * 200_000) and None,  # type: ignore[func-returns-value]
    "no manifest": lambda path: (path / "capsule.json").unlink(),
}


_of_0_1 = _manifest(lambda m: m.update(schema="traindx.capsule/1") or m.pop("sha256"))


@pytest.mark.parametrize("made_by", ["0.1", "0.2"])
@pytest.mark.parametrize("how", HOSTILE, ids=lambda how: how.replace(" ", "-"))
def test_a_hostile_capsule_is_refused(how: str, made_by: str, tmp_path: Path) -> None:
    path = save(_small(), tmp_path)
    if made_by == "0.1":
        _of_0_1(path)
    HOSTILE[how](path)
    with pytest.raises(NothingReadable):
        load(path)


def test_a_capsule_of_0_1_is_read_and_a_new_one_without_its_checksum_is_not(tmp_path: Path) -> None:
    path = save(_small(), tmp_path)
    whole = load(path)
    _manifest(lambda m: m.pop("sha256"))(path)
    with pytest.raises(NothingReadable, match="changed"):
        load(path)
    _manifest(lambda m: m.update(schema="traindx.capsule/1"))(path)
    assert load(path).step == whole.step


def test_the_step_of_a_capsule_is_made_again(tmp_path: Path) -> None:
    path = _broken_run(tmp_path, capture=True)
    before = torch.get_rng_state()
    found = replay(path, make_task())
    assert not found["finite"]
    assert found["origin"]["op"] == "log"
    assert found["origin"]["text"].endswith("# here")
    assert torch.equal(before, torch.get_rng_state())
    other = replay(path, make_task(), other_batch=2, fp32=True, lr_scale=0.1)
    assert other["batch"] == "number 2 of the task"
    assert other["after"]["lr_scale"] == 0.1


def test_without_a_batch_it_asks_for_one(tmp_path: Path) -> None:
    path = _broken_run(tmp_path, capture=False)
    assert load(path).batch is None
    assert load(path).state["optimizers"][0]["param_groups"][0]["momentum"] == 0.9
    with pytest.raises(UsageError, match="--other-batch"):
        replay(path, make_task())
    with pytest.raises(UsageError, match="not the one of the capsule"):
        replay(path, Task(nn.Linear(3, 3), nn.functional.mse_loss, train=_data()))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_the_verb_tells_the_operation(tmp_path: Path) -> None:
    path = _broken_run(tmp_path, capture=True)
    done = CliRunner().invoke(cli, ["replay", str(path), f"{__file__}:make_task"], standalone_mode=False)
    assert "not finite" in done.output
    assert "log at" in done.output
