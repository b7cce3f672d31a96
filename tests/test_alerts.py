"""Word to the user, once."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from patience import until
from runs import a_run, learning
from traindx import alerts as alerts_
from traindx.alerts import Alerts, addresses_of, everyone, follow, sender, watch_record, webhook
from traindx.diagnosis import diagnose
from traindx.errors import UsageError
from traindx.record import Writer

SICK = diagnose(a_run(loss__train=np.r_[learning(300), np.geomspace(0.4, 80, 200)]))


def join() -> None:
    for t in threading.enumerate():
        if t.name == "traindx-alert":
            t.join(5)


def test_once_per_cause_until_the_cooldown_is_over() -> None:
    now, sent = [0.0], []
    alerts = Alerts(lambda title, text: sent.append(title), cooldown_s=60, clock=lambda: now[0])
    assert alerts.consider(SICK) and not alerts.consider(SICK)
    now[0] = 61
    assert alerts.consider(SICK)
    join()
    assert len(sent) == 2


def test_a_healthy_run_is_no_news() -> None:
    alerts = Alerts(lambda title, text: None)
    assert not alerts.consider(diagnose(a_run(loss__train=learning(800))))


def test_a_dead_receiver_is_noted_not_raised() -> None:
    def broken(title: str, text: str) -> None:
        raise OSError("no route")

    alerts = Alerts(broken)
    alerts.consider(SICK)
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


def test_a_webhook_gets_the_verdict_and_the_cure_as_text(inbox: Inbox) -> None:
    alerts = Alerts(webhook(inbox.url))
    assert alerts.consider(SICK)
    alerts.wait(5)
    [letter] = inbox.letters
    assert SICK.summary in letter["body"] and SICK.causes[0].prescription in letter["text"]


def test_a_process_beside_the_training_sends_word_once(inbox: Inbox, tmp_path: Path) -> None:
    writer = record(tmp_path / "run", DIVERGED, close=False)
    writer.flush()
    assert follow(tmp_path / "run", [inbox.url], every_s=0.1)
    assert until(lambda: inbox.letters)
    writer.close()
    assert alerts_._children.pop().wait(30) == 0  # the process leaves when the run has ended
    assert len(inbox.letters) == 1


def test_a_run_that_was_killed_is_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "run", learning(300))
    from dataclasses import replace

    killed = [replace(r, ended="killed") for r in alerts_.list_records(tmp_path / "run")]
    monkeypatch.setattr(alerts_, "list_records", lambda folder: killed)
    sent: list[str] = []
    alerts = Alerts(lambda title, text: sent.append(title))
    watch_record(tmp_path / "run", alerts, 0.01)
    alerts.wait(5)
    assert sent == ["traindx: the run was killed"]


def test_one_dead_address_does_not_keep_word_from_the_others(inbox: Inbox) -> None:
    with pytest.raises(OSError, match="URLError"):
        everyone(["http://127.0.0.1:9/nobody", inbox.url])("title", "text")
    assert inbox.letters[0]["title"] == "title"


def test_a_typo_in_an_address_is_heard_of_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("", "slack", "http://"):
        with pytest.raises(UsageError):
            sender(wrong)
    monkeypatch.setenv("TRAINDX_ALERT", "https://a.example/x https://b.example/y")
    assert addresses_of(None) == ["https://a.example/x", "https://b.example/y"]
    assert addresses_of("https://c.example") == ["https://c.example"]


def test_no_addresses_start_no_process(tmp_path: Path) -> None:
    assert not follow(tmp_path, [])


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
