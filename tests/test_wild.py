"""The wild ward: its manifest holds no code, its seal holds, and bare and observed runs are compared rightly."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from clinic import yard
from clinic.wild import mutants, program, ward
from clinic.wild.program import Program, coin, edited, lay_out, programs

ALL = programs()


def test_there_are_enough_programs_of_enough_kinds_from_both_sources() -> None:
    healthy = [p for p in ALL if p.truth == "healthy"]
    assert len(healthy) >= 100
    assert len({p.kind for p in healthy}) >= 14
    assert sum(p.public for p in ALL) >= 50 and sum(not p.public for p in ALL) >= 40
    assert sum(p.kind == "adversarial" for p in ALL) >= 5


def test_the_coin_sets_about_half_aside() -> None:
    assert 0.4 < sum(p.sealed for p in ALL) / len(ALL) < 0.6
    assert coin("nanogpt") == coin("nanogpt")
    both = Counter((p.kind, p.sealed) for p in ALL)
    assert sum(both[k, True] > 0 for k in {p.kind for p in ALL}) >= 14


def test_the_manifest_holds_names_and_numbers_and_no_code() -> None:
    text = program.MANIFEST.read_text(encoding="utf-8")
    assert "def " not in text and "import torch" not in text and "backward" not in text
    for p in ALL:
        assert p.name and p.kind and p.path.endswith(".py")
        if p.public:
            owner, _, commit = p.source.partition("@")
            assert owner.count("/") == 1 and len(commit) == 40 and int(commit, 16)
        else:
            assert (program.HERE / "drivers" / p.path).exists(), p.name
        for old, new in p.swap:
            assert len(old) <= 60 and len(new) <= 60 and "\n" not in old + new, p.name
        for order in p.data:
            assert hasattr(__import__("clinic.wild.makers", fromlist=["x"]), order.partition(":")[0]), order


def test_sealed_programs_need_a_reason_and_each_use_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "seals.jsonl"
    monkeypatch.setattr(ward, "SEALS", log)
    hidden = next(p for p in ALL if p.sealed)
    with pytest.raises(ward.Sealed):
        ward.chosen(ward.Ask(only=hidden.name))
    with pytest.raises(ward.Sealed):
        ward.chosen(ward.Ask(only=hidden.name, final="x"))
    assert not log.exists()
    assert ward.chosen(ward.Ask(only=hidden.name, final="the bars of the issue")) == [hidden]
    [entry] = [json.loads(row) for row in log.read_text(encoding="utf-8").splitlines()]
    assert entry["names"] == [hidden.name] and entry["commit"] and entry["why"] == "the bars of the issue"
    assert all(not p.sealed for p in ward.chosen(ward.Ask()))
    assert {p.sealed for p in ward.chosen(ward.Ask(bare=True))} == {True, False}


def test_mutants_of_sealed_programs_are_sealed() -> None:
    hidden, shown = next(p for p in ALL if p.sealed), next(p for p in ALL if not p.sealed)
    assert mutants.sealed(hidden, "zero_grad_gone")
    assert {mutants.sealed(shown, f.name) for f in mutants.mutate.FAULTS} == {True, False}


def test_numbers_are_set_by_name_and_nothing_else_changes() -> None:
    p = Program("a", "b", "c", "d.py", set={"epochs": 2, "lr": 0.5}, swap=(("gym", "gymnasium"),))
    text = 'parser.add_argument("--epochs", type=int, default=90, help="")\nepochs=10\nmy = 3\nf(lr = 1e-3)\nimport gym\n'
    assert edited(text, p) == (
        'parser.add_argument("--epochs", type=int, default=2, help="")\nepochs=2\nmy = 3\nf(lr = 0.5)\nimport gymnasium\n'
    )


def test_the_harness_adds_its_import_without_moving_a_line() -> None:
    text = '"""doc"""\nfrom __future__ import annotations\nimport os\nx = 1\n'
    assert program._begun(text) == text.replace("import os", "import wild_ward; import os")
    assert program._begun("@deco\ndef f(): pass\n").startswith("import wild_ward\n@deco")


def test_outputs_are_the_same_but_for_times() -> None:
    assert ward.same_text("step 1 loss 0.5 12.3 ms\n", "step 1 loss 0.5 99.1 ms\n")
    assert not ward.same_text("loss 0.5\n", "loss 0.6\n")
    assert ward.same_text("SPS: 120\n", "SPS: 99\n")


def test_a_program_runs_bare_from_a_checkout_with_its_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "src" / "some+thing" / "sub"
    home.mkdir(parents=True)
    (home / "main.py").write_text(
        "import torch\nw = torch.nn.Linear(2, 1)\no = torch.optim.SGD(w.parameters(), lr=0.1)\nsteps = 500\n"
        "for k in range(steps):\n    o.zero_grad()\n    loss = w(torch.ones(4, 2)).pow(2).mean()\n"
        "    loss.backward()\n    o.step()\n"
        "print(steps, f'loss {loss.item():.4f}')\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(ward, "KEPT", tmp_path / "kept")
    p = Program("tiny", "regression", "some/thing@" + "0" * 40, "sub/main.py", set={"steps": 5}, metric=r"loss ([\d.]+)")
    ask = ward.Ask(sources=tmp_path / "src", limit_s=120)
    first, second = ward.run_bare(p, ask), ward.run_bare(p, ask, seed=3)
    assert first["exit"] == 0 and first["stdout"].startswith("5 loss"), first["stderr"]
    assert [row.split()[0] for row in first["digest"].splitlines()] == ["1", "2", "4"]
    assert second["digest"] != first["digest"], "another seed, other weights"
    assert ward.metric(p, first["stdout"]) is not None
    assert ward.run_bare(p, ask) == first, "kept"
    with pytest.raises(program.BadProgram):
        lay_out(p, tmp_path / "x", tmp_path / "nowhere")


def test_figures_count_alarms_by_rule() -> None:
    line = {
        "kind": "vision",
        "truth": "healthy",
        "ratio": 1.2,
        "same_bits": True,
        "same_exit": True,
        "verdict": "healthy",
        "bare_cpu_s": 1,
        "blind": 3,
    }
    lines = [
        {**line, "name": "a", "critical": [], "warning": ["X"]},
        {**line, "name": "b", "critical": ["X"], "warning": []},
        {"name": "c", "error": "no"},
    ]
    s = ward.summary(lines)
    assert (s["critical"]["k"], s["warning"]["k"], s["critical"]["n"]) == (1, 2, 2)
    assert s["by_rule"] == {"X": {"critical": ["b"], "warning": ["a"]}} and s["failed"] == ["c"]
    assert "| X | 1 | 1 | b, a |" in ward.page(lines)


def test_the_yard_stick_tells_what_was_lost_and_what_alarms_anew() -> None:
    before = yard.baseline()
    assert len(before) >= 150
    assert sum(x["kind"] == "healthy" for x in before.values()) >= 70
    now = json.loads(json.dumps(before))
    sick = next(n for n, x in before.items() if x.get("hit"))
    well = next(n for n, x in before.items() if x["kind"] == "healthy" and not any(s != "info" for s in x["found"].values()))
    now[sick]["hit"], now[well]["found"] = False, {"LOSS001": "warning"}
    changed = yard.compare(before, now)
    assert [row.split(":")[0] for row in changed["found lost"]] == [sick]
    assert changed["alarms gained"] == [f"{well} LOSS001 (warning)"]
    assert not any(rows for what, rows in yard.compare(before, before).items())


def test_a_stored_run_is_judged_as_before() -> None:
    [(name, line)] = yard.look(only="zero_grad_missing_mlp").items()
    assert name == "zero_grad_missing_mlp" and line["hit"]
