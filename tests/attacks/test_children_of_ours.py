"""The forked copy that looks for the first bad number, in programs that handle children in their own way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from traindx.forensics.again import in_child


def _takes_all(*_: Any) -> None:
    while True:
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return


@pytest.mark.parametrize("handler", [signal.SIG_IGN, _takes_all], ids=["ignored", "taken"])
def test_its_answer_arrives_whoever_waits_for_children(handler: Callable[..., Any]) -> None:
    before = signal.signal(signal.SIGCHLD, handler)
    try:
        assert in_child(lambda: {"origin": 1}, 60) == {"origin": 1}
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_it_ends_without_touching_what_the_script_does_at_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    def leaves() -> dict[str, Any]:
        raise SystemExit(9)

    print("once", end="")
    assert "SystemExit" in in_child(leaves, 60)["replay.failed"]
    assert capfd.readouterr().out == "once"
