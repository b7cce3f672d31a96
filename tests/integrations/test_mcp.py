"""An agent's client asks the MCP server, over stdio, as agents do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.framework


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    losses = np.r_[np.geomspace(2.0, 0.4, 300), np.geomspace(0.4, 80, 200)]
    for name, values in (("bad.csv", losses), ("good.csv", np.geomspace(2.0, 0.3, 500))):
        (tmp_path / name).write_text("step,loss\n" + "\n".join(f"{i},{v:.5f}" for i, v in enumerate(values)))
    return tmp_path


def asked(folder: Path, questions: Callable[[Any], Any], *options: str) -> Any:
    """What a client hears from `traindx mcp FOLDER`."""
    import anyio
    from mcp import Client, StdioServerParameters

    async def talk() -> Any:
        command = StdioServerParameters(command=sys.executable, args=["-m", "traindx", "mcp", str(folder), *options])
        async with Client(command, read_timeout_seconds=60) as client:
            return await questions(client)

    return anyio.run(talk)


def test_the_tools_answer_in_one_round_trip(folder: Path) -> None:
    async def questions(client: Any) -> dict[str, Any]:
        tools = (await client.list_tools()).tools
        told = {"tools": {t.name: t.annotations.read_only_hint for t in tools}}
        for name, arguments in (
            ("list_runs", {}),
            ("diagnose", {"run": "bad.csv"}),
            ("explain", {"code": "LOSS001"}),
            ("series", {"run": "bad.csv", "signal": "loss/train", "points": 10}),
            ("compare", {"a": "good.csv", "b": "bad.csv"}),
            ("diagnose", {"run": "../../etc/passwd"}),
        ):
            answer = await client.call_tool(name, arguments)
            key = "escape" if ".." in arguments.get("run", "") else name
            told[key] = (answer.is_error, answer.content[0].text)
        return told

    told = asked(folder, questions)
    assert told.pop("tools") == dict.fromkeys(("list_runs", "diagnose", "explain", "series", "compare"), True)
    refused, why = told.pop("escape")
    documents = {name: json.loads(text) for name, (wrong, text) in told.items() if not wrong}
    assert set(documents) == {"list_runs", "diagnose", "explain", "series", "compare"}, told
    assert any(f["code"] == "LOSS001" for f in documents["diagnose"]["untrusted"]["findings"])
    assert documents["explain"]["code"] == "LOSS001"
    assert len(documents["series"]["untrusted"]["values"]) == 10 and documents["series"]["untrusted"]["of"] == 500
    assert documents["compare"]["untrusted"]["outcome"] == "worse"
    assert refused and "below" in why


def test_trials_are_offered_only_when_allowed(folder: Path) -> None:
    async def questions(client: Any) -> dict[str, bool]:
        return {t.name: t.annotations.read_only_hint for t in (await client.list_tools()).tools}

    assert not {"check", "trial"} & set(asked(folder, questions))
    allowed = asked(folder, questions, "--allow-trials")
    assert allowed["check"] is False and allowed["trial"] is False and allowed["diagnose"] is True
    assert asked(folder / "not-there-yet", questions)
