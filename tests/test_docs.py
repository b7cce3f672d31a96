"""The documentation: links lead somewhere, every page is in the navigation, its programs run and say what the text says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tools.rule_pictures import UNSHOWN

from traindx.cli import cli
from traindx.rule import catalogue

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md")) + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]


def headings(path: Path) -> set[str]:
    """The anchors of a page, as the site makes them."""
    found = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in found}


def test_every_relative_link_leads_to_a_file_and_every_anchor_to_a_heading() -> None:
    broken = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if re.match(r"\w+:", target):
                continue
            there = (page.parent / path).resolve() if path else page
            if not there.exists() or (anchor and there.suffix == ".md" and anchor not in headings(there)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_page_is_in_the_navigation_and_every_entry_exists() -> None:
    def files(nav: object) -> set[str]:
        if isinstance(nav, str):
            return {nav}
        parts = nav.values() if isinstance(nav, dict) else nav
        return set().union(*(files(part) for part in parts))  # type: ignore[union-attr]

    listed = files(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    written = {p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")}
    assert listed <= written
    assert {p for p in written - listed if not p.startswith("rules/")} == set()


def test_codes_named_in_the_text_exist() -> None:
    from traindx.rule import FAMILIES, catalogue

    known = catalogue()
    for page in DOCS.glob("*.md"):
        named = set(re.findall(rf"\b(?:{'|'.join(FAMILIES)})\d{{3}}\b", page.read_text(encoding="utf-8")))
        assert {c for c in named - set(known) if not (page.name == "adding-a-rule.md" and c == "GRAD008")} == set(), page.name


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def traindx(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "traindx", *args], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=900
    )


def test_the_tutorials_sick_script_gets_the_diagnosis_the_text_promises(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(blocks("tutorial.md")[0], encoding="utf-8")
    done = traindx(tmp_path, "run", "train.py")
    assert done.returncode == 0 and done.stdout.count("validation loss") == 8
    assert "WIRE010" in done.stderr, done.stderr
    shown = re.search(r"```text\n(.*?)```", (DOCS / "tutorial.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    shown_top, printed_top = (
        [line.strip() for line in text[text.index("FIX AND RESUME") : text.index("  how sure")].splitlines()]
        for text in (shown[1], done.stderr)
    )
    assert shown_top == printed_top


def test_the_tutorials_task_passes_the_quick_check(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(blocks("tutorial.md")[1], encoding="utf-8")
    done = traindx(tmp_path, "check", "task.py:make_task", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_test_of_the_ci_page_passes(tmp_path: Path) -> None:
    (block,) = blocks("ci.md")
    (tmp_path / "test_model.py").write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "traindx.testing.plugin", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout


TRAINING = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
weights = torch.randn(8)


def drawn(count):
    x = torch.randn(count, 8)
    return x, (x @ weights > 0).long()


held = drawn(500)
for epoch in range(6):
    for _ in range(40):
        x, y = drawn(32)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(held[0]), held[1]).item()
        accuracy = (model(held[0]).argmax(1) == held[1]).float().mean().item()
    print(f"epoch {epoch} val_loss {loss:.3f} val_acc {accuracy:.3f}")
"""


def test_every_command_of_the_ci_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other; runs that the page takes as given are copies of a good one."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINDX_DIR", raising=False)
    for name in ("train.py", "nightly.py"):
        Path(name).write_text(TRAINING, encoding="utf-8")
    made = traindx(tmp_path, "run", "--no-live", "--dir", "good", "nightly.py")
    assert made.returncode == 0, made.stderr
    for name in ("baseline-run", "new-run", "traindx-runs/one", "traindx-runs/two", "monday", "tuesday", "wednesday"):
        shutil.copytree("good", name)
    told = {}
    for line in re.findall(r"^\$ traindx (.*)$", (DOCS / "ci.md").read_text(encoding="utf-8"), re.M):
        words = shlex.split(line.partition(">>")[0], comments=True)
        if words[0] == "run":
            shutil.rmtree(record := Path(words[words.index("--dir") + 1]), ignore_errors=True)
            Path(words[-1]).write_text(f"{TRAINING}# {record}\n", encoding="utf-8")
            done = traindx(tmp_path, *words)
            code, told[line] = done.returncode, done.stderr
        else:
            answered = CliRunner().invoke(cli, words, standalone_mode=False, input="y\n")
            code, told[line] = answered.return_value, answered.output
        assert code in (0, 1), f"{line}: {told[line]}"
    nightly = Path("nightly.xml").read_text(encoding="utf-8")
    assert 'name="val_acc &gt;= 0.93"' in nightly and 'name="time/step &lt;= 3 * baseline"' in nightly
    assert "+# tuesday" in told["compare monday tuesday"] and Path("run.zip").exists()
    assert len(list(Path("traindx-runs").iterdir())) == 1  # rm was told yes


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", (DOCS / "ci.md").read_text(encoding="utf-8"), re.DOTALL))
def test_the_examples_of_configuration_are_yaml(block: str) -> None:
    assert isinstance(yaml.safe_load(block), dict)


def test_verbs_and_options_named_in_the_text_exist() -> None:
    from traindx.cli import verbs

    for page in DOCS.glob("*.md"):
        for verb in re.findall(r"(?:`|\$ )traindx (\w+)", page.read_text(encoding="utf-8")):
            assert verb in verbs(), f"{page.name}: traindx {verb}"


def test_the_explorers_of_the_docs_find_every_module_they_import() -> None:
    from tools import explorers, site

    there = {name: (site.PAGE / name).read_text(encoding="utf-8") for name in site.MODULES}
    there["start.js"] = (explorers.OUT / "start.js").read_text(encoding="utf-8")
    asked = {m for text in there.values() for m in re.findall(r'from "\./([\w.]+)"', text)}
    assert asked == set(site.MODULES)
    linked = re.findall(r'(?:href|src)="([^"]+)"', (DOCS / "explorers.md").read_text(encoding="utf-8"))
    assert set(linked) == {"explorers/explorers.css", "explorers/start.js"}  # the build makes them relative to the page


def test_the_answers_of_the_explorers_are_those_of_the_dashboard() -> None:
    from tools import explorers

    kept = json.loads((explorers.OUT / "answers.json").read_text(encoding="utf-8"))
    assert kept["gallery"] == json.loads((explorers.PAGE / "gallery.json").read_text(encoding="utf-8"))
    assert len(kept["gradients"]) == 6 * 6 * 2 * 2 * 3 and len(kept["units"]) == 8 * 6 and len(kept["weights"]) == 4
    fresh = explorers.gradient_health("sigmoid", "xavier", 8, explorers.WIDTH, "none", False)
    old = kept["gradients"]["sigmoid|xavier|none|no|8"]
    assert old["verdict"] == fresh["verdict"] and old["forward"] == pytest.approx(fresh["forward"], rel=0.01)


def test_every_condition_has_a_picture_or_says_why_not() -> None:
    drawn = {p.stem.upper() for p in (DOCS / "rules" / "pictures").glob("*.svg")}
    assert set(catalogue()) - drawn == set(UNSHOWN)


def test_the_configuration_page_names_every_setting_and_every_variable() -> None:
    from traindx import settings

    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    first, second, *_ = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    table = tomllib.loads(first)["tool"]["traindx"]
    assert set(table) | {"extends"} == set(settings.KEYS) | {"extends"} and tomllib.loads(second)["rules"] == table["rules"]
    source = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    inner = {"TRAINDX_RUN", "TRAINDX_PYTHON", "TRAINDX_BATCH_TIMES"}  # one process tells another
    assert set(re.findall(r"\"(TRAINDX(?:_[A-Z]+)*)\"", source)) - inner <= set(re.findall(r"`(TRAINDX\w*)", page))


def test_the_example_of_the_configuration_page_is_read_as_it_says(tmp_path: Path) -> None:
    from traindx import settings

    first, second, *_ = re.findall(r"```toml\n(.*?)```", (DOCS / "configuration.md").read_text(encoding="utf-8"), re.DOTALL)
    for name, text in (("pyproject.toml", first), ("traindx.toml", second)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        found = settings.load(file=tmp_path / name)
        assert found.ignore == ("PERF",) and found.rules == {"GRAD002": {"limit": 20.0}}
        assert catalogue()["GRAD002"].settings.keys() >= {"limit"}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_nothing_links_to_a_site_of_ours_that_does_not_exist() -> None:
    texts = [*PAGES, *(ROOT / "src").rglob("*.py"), ROOT / "pyproject.toml"]
    assert [p.name for p in texts if re.search(r"readthedocs|pypi\.org/project/traindx", p.read_text(encoding="utf-8"))] == []


def test_the_house_keeping_of_the_ci_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from traindx.cli import cli
    from traindx.record import Writer

    monkeypatch.chdir(tmp_path)
    for name in ("monday", "tuesday", "wednesday"):
        writer = Writer(tmp_path / "traindx-runs" / name)
        for step in range(60):
            writer.write(step, {"loss/train": 2.0 * 0.97**step})
        writer.close()
    section = (DOCS / "ci.md").read_text(encoding="utf-8").split("## House-keeping")[1].split("\n## ")[0]
    lines = re.findall(r"^\$ traindx (.*?)(?: +#.*)?$", section, re.MULTILINE)
    assert [shlex.split(line)[0] for line in lines] == ["rm", "prune", "bundle", "diagnose"]
    for line in lines:
        done = CliRunner().invoke(cli, shlex.split(line), standalone_mode=False, input="y\n")
        assert done.exception is None and done.return_value == 0, (line, done.output, done.exception)
    assert sorted(p.name for p in (tmp_path / "traindx-runs").iterdir()) == ["monday", "wednesday"]
    assert (tmp_path / "run.zip").is_file()
