"""Alerts through apprise, to a receiver on this machine."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patience import until
from traindx.alerts import sender
from traindx.errors import UsageError
from traindx.live.start import Judge
from traindx.record import Writer

pytestmark = pytest.mark.framework


@pytest.fixture
def inbox() -> Iterator[Any]:
    letters: list[dict[str, Any]] = []

    class Desk(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            letters.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Silence."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Desk) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"json://127.0.0.1:{server.server_address[1]}/hook", letters
        server.shutdown()


def test_word_arrives_as_it_was_sent(inbox: Any) -> None:
    address, letters = inbox
    sender(address)("traindx: restart", "the loss <b>ran</b> away")
    [letter] = letters
    assert (letter["title"], letter["message"]) == ("traindx: restart", "the loss <b>ran</b> away")


def test_a_service_that_refuses_and_an_address_nobody_knows_are_told_apart() -> None:
    with pytest.raises(UsageError, match="does not understand"):
        sender("nosuchservice://x")
    with pytest.raises(OSError, match="did not take"):
        sender("json://127.0.0.1:9/hook")("a", "b")


def test_the_process_beside_the_training_sends_through_it(inbox: Any, tmp_path: Path) -> None:
    address, letters = inbox
    writer = Writer(tmp_path / "run", name="job")
    for step, loss in enumerate(np.r_[np.geomspace(2.0, 0.4, 300), np.geomspace(0.4, 80, 200)]):
        writer.write(step, {"loss/train": float(loss)})
    writer.close()
    judge = Judge("job", lines="", addresses=[address])
    judge.begin(tmp_path / "run")
    judge.end()
    until(lambda: letters)
    assert [letter["title"] for letter in letters] == ["traindx: fix and resume"]
