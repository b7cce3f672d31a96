"""Word to the user, once."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from patience import until
from runs import learning
from traindx import settings
from traindx.alerts import Alerts, addresses_of, everyone, sender, webhook
from traindx.errors import UsageError
from traindx.live.start import Judge
from traindx.record import Writer


def join() -> None:
    for t in threading.enumerate():
        if t.name == "traindx-alert":
            t.join(5)


def test_once_per_cause_until_the_cooldown_is_over() -> None:
    now, sent = [0.0], []
    alerts = Alerts(lambda title, text: sent.append(title), cooldown_s=60, clock=lambda: now[0])
    assert alerts.tell("LOSS001", "a", "b") and not alerts.tell("LOSS001", "a", "b")
    now[0] = 61
    assert alerts.tell("LOSS001", "a", "b")
    join()
    assert len(sent) == 2


def test_a_dead_receiver_is_noted_not_raised() -> None:
    def broken(title: str, text: str) -> None:
        raise OSError("no route")

    alerts = Alerts(broken)
    alerts.tell("LOSS001", "a", "b")
    join()
    assert alerts.failures == ["OSError: no route"]


def test_only_web_addresses() -> None:
    with pytest.raises(UsageError):
        webhook("file:///etc/passwd")


class Inbox(http.server.ThreadingHTTPServer):
    """A receiver that keeps what it was sent."""

    def __init__(self) -> None:
        self.letters: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Desk)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Desk(http.server.BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        self.server.letters.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Silence."""


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def record(path: Path, losses: np.ndarray, close: bool = True) -> Writer:
    writer = Writer(path, name="job")
    for step, loss in enumerate(losses):
        writer.write(step, {"loss/train": float(loss)})
    if close:
        writer.close()
    return writer


DIVERGED = np.r_[learning(300), np.geomspace(0.4, 80, 200)]


def test_the_judge_beside_the_training_sends_word_once(inbox: Inbox, tmp_path: Path) -> None:
    writer = record(tmp_path / "run", DIVERGED, close=False)
    writer.flush()
    judge = Judge("job", lines="", addresses=[inbox.url])
    judge.begin(tmp_path / "run")
    writer.close()
    judge.end()
    assert until(lambda: inbox.letters)
    [letter] = inbox.letters
    assert letter["title"] == "traindx: fix and resume" and "the training loss rose" in letter["body"]


def test_one_dead_address_does_not_keep_word_from_the_others(inbox: Inbox) -> None:
    with pytest.raises(OSError, match="URLError"):
        everyone(["http://127.0.0.1:9/nobody", inbox.url])("title", "text")
    assert inbox.letters[0]["title"] == "title"


def test_a_typo_in_an_address_is_heard_of_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("", "slack", "http://"):
        with pytest.raises(UsageError):
            sender(wrong)
    monkeypatch.setenv("TRAINDX_ALERT", "https://a.example/x slack")
    assert addresses_of(None, settings.load().alerts) == ["https://a.example/x"]  # a training goes on without the other
    assert "'slack' gets no alert" in capsys.readouterr().err
    assert addresses_of("https://c.example") == ["https://c.example"]


def test_the_server_tells_of_running_runs_only(tmp_path: Path) -> None:
    from traindx.cli.serve import Herald
    from traindx.dashboard.library import Library

    writer = record(tmp_path / "live", DIVERGED, close=False)
    writer.flush()
    record(tmp_path / "old", DIVERGED)
    sent: list[str] = []
    alerts = Alerts(lambda title, text: sent.append(text))
    herald = Herald(Library(tmp_path), alerts)
    assert herald.look() == 1 and herald.look() == 0
    alerts.wait(5)
    assert len(sent) == 1
    writer.close()
