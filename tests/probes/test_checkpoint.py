"""What is saved, what is seeded, and what must never be written down."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from probes.watched import fit, watched
from traindx.probes.read.machine import generators
from traindx.probes.read.machine.checkpoint import Checkpoints, parts_of
from traindx.probes.read.machine.surroundings import commit_of, looks_secret, redacted, scrubbed
from traindx.run import Run

X, Y = torch.randn(32, 8), torch.randint(0, 3, (32,))


def saving(path: Path, what: Any, steps: int = 4, optimizer: Any = torch.optim.Adam) -> Run:
    def loop() -> None:
        model = nn.Linear(8, 3)
        opt = optimizer(model.parameters(), 0.01)
        schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
        for step in range(steps):
            opt.zero_grad()
            F.cross_entropy(model(X), Y).backward()
            opt.step()
            schedule.step()
            for i, part in enumerate(what(model, opt, schedule, step)):
                torch.save(part, path / f"{i}.pt")

    return watched(loop, Checkpoints())


def whole(model: Any, opt: Any, schedule: Any, step: int) -> dict[str, Any]:
    return {
        "weights": model.state_dict(),
        "a": opt.state_dict(),
        "b": schedule.state_dict(),
        "step": step,
        "rng": torch.get_rng_state(),
    }


def test_a_whole_checkpoint_misses_nothing_whatever_its_keys(tmp_path):
    run = saving(tmp_path, lambda *a: [whole(*a)])
    assert run.fact("checkpoint.missing") == []
    assert run.fact("checkpoint.saves") == 4


def test_what_is_left_out_is_named(tmp_path):
    run = saving(tmp_path, lambda m, o, s, i: [{"model": m.state_dict(), "epoch": i}])
    assert run.fact("checkpoint.missing") == ["optimizer", "scheduler", "rng"]
    assert run.events_of("checkpoint")[0].data["holds"] == ["model", "step"]


def test_best_weights_beside_a_whole_checkpoint_are_fine(tmp_path):
    def what(m: Any, o: Any, s: Any, i: int) -> list[Any]:
        return [m.state_dict()] if i < 3 else [m.state_dict(), whole(m, o, s, i)]

    assert saving(tmp_path, what).fact("checkpoint.missing") == []


def test_states_in_files_of_their_own_count_together(tmp_path):
    run = saving(
        tmp_path, lambda m, o, s, i: [m.state_dict(), o.state_dict(), s.state_dict(), {"step": i, "r": random.getstate()}]
    )
    assert run.fact("checkpoint.missing") == []


def test_plain_sgd_has_no_state_to_lose(tmp_path):
    run = saving(
        tmp_path, lambda m, o, s, i: [{"model": m.state_dict(), "s": s.state_dict(), "step": i}], optimizer=torch.optim.SGD
    )
    assert run.fact("checkpoint.missing") == ["rng"]


def test_a_list_of_losses_is_no_checkpoint(tmp_path):
    run = saving(tmp_path, lambda *a: [[0.1, 0.2], torch.tensor([1.0])])
    assert run.fact("checkpoint.saves") == 0
    assert "checkpoint.missing" not in run.facts


@pytest.mark.parametrize(
    ("thing", "parts"),
    [
        (nn.Linear(2, 2), {"model"}),
        (nn.Linear(2, 2).state_dict(), {"model"}),
        ({"state_dict": nn.Linear(2, 2).state_dict(), "global_step": 3}, {"model", "step"}),
        ({"optimizer_states": [torch.optim.Adam([torch.zeros(1)]).state_dict()]}, {"optimizer"}),
        (torch.amp.GradScaler("cpu").state_dict(), {"scaler"}),
        ({"numpy": np.random.get_state(), "python": random.getstate()}, {"rng"}),
        ({"best": True, "note": "x"}, set()),
    ],
)
def test_parts_are_told_by_their_form(thing, parts):
    assert parts_of(thing) == parts


def test_seeds_are_noticed():
    def loop() -> None:
        torch.manual_seed(1)
        random.seed(1)
        model = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        F.cross_entropy(model(X), Y).backward()
        optimizer.step()

    seeds = watched(loop, Checkpoints()).fact("seeds")
    assert (seeds["torch"], seeds["python"], seeds["numpy"]) == (True, True, False)


@pytest.mark.parametrize(("drawn", "seeded"), [(67280421310721, False), (3047597014695042997, False), (7, True)])
def test_a_generator_that_drew_its_own_seed_was_not_seeded(drawn, seeded, monkeypatch):
    monkeypatch.setattr(torch, "initial_seed", lambda: drawn)

    def loop() -> None:
        model = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        F.cross_entropy(model(X), Y).backward()
        optimizer.step()

    assert watched(loop, Checkpoints()).fact("seeds")["torch"] is seeded


def test_versions_are_those_of_what_runs():
    from traindx.probes.drive import session

    assert session.about(None, [])["versions"]["torch"] == torch.__version__


# -- secrets

SECRETS = [
    "sk-abcdEFGH1234567890abcdEFGH1234567890",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY9",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc",
    "xoxb-123456789012-abcdefghijkl",
]
PLAIN = [
    "train.py", "--lr", "0.001", "--model=resnet50_imagenet_baseline", "--data", "/data/imagenet/train/2024-01-05",
    "--max-tokens=4096", "--tokens-per-batch", "8192", "--pad-token-id=0",
    "--name=exp-2024-05-06-with-a-very-long-but-ordinary-name",
    "--keys=8", "--num_tokens", "12", "--betas", "0.9,0.999", "https://example.org/data.tar.gz", "--monkey=3",
    "--tokenizer=bert-base-uncased", "--author", "me",
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "form", ["{}", "--x={}", "--api-key {}", "--token={}", "https://host/?a=1&t={}", "https://{}@host/x", "KEY={}"]
)
def test_no_secret_survives(secret, form):
    words = form.format(secret).split()
    assert secret not in " ".join(redacted(["train.py", *words]))


@pytest.mark.parametrize(
    "name", ["--api-key", "--password", "--wandb_api_key", "--auth-token", "--secret", "--hf-token", "--db.passwd"]
)
def test_what_is_called_a_secret_is_hidden_even_if_it_is_short(name):
    assert redacted([name, "abc"]) == [name, "***"]
    assert redacted([f"{name}=abc"]) == [f"{name}=***"]


def test_ordinary_arguments_stay_as_they_are():
    assert redacted(PLAIN) == PLAIN


def test_words_are_not_random():
    assert not looks_secret("convolutional_neural_network_with_attention")
    assert scrubbed("loss was 0.25 at step 100") == "loss was 0.25 at step 100"


# -- commit


def repository(path: Path, head: str, **files: str) -> Path:
    (path / ".git").mkdir()
    (path / ".git" / "HEAD").write_text(head)
    for name, text in files.items():
        target = path / ".git" / name.replace("__", "/").replace("_", "-")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (path / "deep" / "er").mkdir(parents=True)
    return path / "deep" / "er"


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_the_commit_is_read_without_git(tmp_path):
    assert commit_of(repository(tmp_path, "ref: refs/heads/main\n", refs__heads__main=COMMIT + "\n")) == COMMIT


def test_packed_and_detached_heads_are_read(tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    assert commit_of(repository(tmp_path / "a", COMMIT)) == COMMIT
    packed = f"# pack-refs\n{COMMIT} refs/heads/main\n"
    assert commit_of(repository(tmp_path / "b", "ref: refs/heads/main", packed_refs=packed)) == COMMIT


@pytest.mark.parametrize("head", ["", "ref: ../../../etc/passwd", "nonsense", "ref: refs/heads/none"])
def test_a_broken_or_hostile_repository_has_no_commit(tmp_path, head):
    assert commit_of(repository(tmp_path, head)) is None


@pytest.mark.parametrize("early", [False, True])
def test_generators_that_were_drawn_from_are_known_where_we_launched_the_script(early, monkeypatch):
    monkeypatch.setattr(generators, "_launched", {})
    assert "rng.used" not in watched(lambda: None, Checkpoints()).facts
    generators.remember()
    if early:
        random.seed(1)  # before anybody listened: used or seeded, who knows

    def loop() -> None:
        random.random()
        fit(nn.Linear(8, 3), F.cross_entropy, X, Y)

    used = watched(loop, Checkpoints()).fact("rng.used")
    assert used == ({"numpy": False, "torch": True} if early else {"python": True, "numpy": False, "torch": True})


def test_a_generator_of_numpys_that_is_made_later_counts_once_it_is_drawn_from(monkeypatch):
    """numpy makes its generator when it is first asked for, which may be long after the launch."""
    mtrand = sys.modules["numpy.random.mtrand"]
    monkeypatch.setattr(generators, "_launched", {"python": 1})
    monkeypatch.setattr(mtrand, "_rand", np.random.RandomState())
    assert "numpy" in generators.untouched()
    mtrand._rand.normal()
    assert "numpy" not in generators.untouched()
    monkeypatch.delitem(sys.modules, "numpy.random.mtrand")
    assert "numpy" in generators.untouched()
