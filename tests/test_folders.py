"""Which folder a verb takes when none is named, and to which names the dashboard answers."""

from __future__ import annotations

from pathlib import Path

import click
import psutil
import pytest

from traindx import api
from traindx.cli import options, serve
from traindx.errors import UsageError


@pytest.mark.parametrize("verb", ["top", "serve", "mcp"])
def test_the_folder_is_that_of_run(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from traindx.cli import cli

    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    monkeypatch.setenv("TRAINDX_DIR", "elsewhere")
    assert command.make_context(verb, []).params["folder"] == Path("elsewhere")
    assert command.make_context(verb, ["here"]).params["folder"] == Path("here")
    monkeypatch.delenv("TRAINDX_DIR")
    assert command.make_context(verb, []).params["folder"] == Path("traindx-runs")
    assert options.runs_folder is not None


def test_the_dashboard_answers_to_the_machines_own_addresses() -> None:
    own = {a.address for found in psutil.net_if_addrs().values() for a in found if a.family.name == "AF_INET"}
    names = serve._names("0.0.0.0")
    assert own <= set(names) and all(":" not in n or n.startswith("[") for n in names)
    assert set(serve._names("127.0.0.1")) == {"127.0.0.1", "localhost", "[::1]"}
    assert "10.1.2.3" in serve._names("10.1.2.3") and not own - {"127.0.0.1"} & set(serve._names("10.1.2.3"))


def test_one_run_of_a_file_is_named_as_the_list_names_it(tmp_path: Path) -> None:
    log = tmp_path / "two.log"
    log.write_text(
        "\n".join(f"step {i} loss {2.3 / (1 + i / 10) + r:.4f}" for r in range(2) for i in range(60)), encoding="utf-8"
    )
    both = api.load(log)
    assert [api.load(tmp_path / Path(run.source).name)[0].source for run in both] == [run.source for run in both]
    with pytest.raises(UsageError, match="holds 1, 2"):
        api.load(f"{log}#3")
    plain = tmp_path / "odd#name.csv"
    plain.write_text("step,loss\n" + "\n".join(f"{i},{1 / (i + 1)}" for i in range(40)), encoding="utf-8")
    assert len(api.load(plain)) == 1
