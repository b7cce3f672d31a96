"""Word to the user when something new is found, once per cause: a webhook, or any service apprise knows."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from traindx.diagnosis import Diagnosis
from traindx.errors import EnvironmentFault, UsageError
from traindx.finding import Severity
from traindx.report.words import safe

Send = Callable[[str, str], None]  # title, text


@dataclass
class Alerts:
    """Sends one message per cause (or root finding) and stays quiet about it for `cooldown_s`; never waits, never raises."""

    send: Send
    least: Severity = Severity.WARNING
    cooldown_s: float = 3600.0
    clock: Callable[[], float] = time.monotonic
    failures: list[str] = field(default_factory=list)
    _told: dict[str, float] = field(default_factory=dict)

    def consider(self, diagnosis: Diagnosis) -> bool:
        """Send word of the diagnosis when its worst story is new; whether anything was sent."""
        loud = [s for s in diagnosis.stories if s.severity >= self.least]
        if not loud:
            return False
        key = diagnosis.causes[0].cause.name if diagnosis.causes else loud[0].root.code
        last = self._told.get(key)
        if last is not None and self.clock() - last < self.cooldown_s:
            return False
        self._told[key] = self.clock()
        title = f"traindx: {diagnosis.verdict}"
        text = f"{safe(diagnosis.summary, 500)}\n{safe(diagnosis.run.source, 200)}"
        threading.Thread(target=self._deliver, args=(title, text), daemon=True, name="traindx-alert").start()
        return True

    def _deliver(self, title: str, text: str) -> None:
        try:
            self.send(title, text)
        except Exception as why:  # a mail server that is down must not reach the training; the failure is kept for the record
            self.failures.append(f"{type(why).__name__}: {why}")


def webhook(url: str, timeout_s: float = 10.0) -> Send:
    """A sender that posts JSON which Slack, Discord, Mattermost and plain receivers understand."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"a webhook is an http or https address, not {url!r}")

    def send(title: str, text: str) -> None:
        body: dict[str, Any] = {"text": f"*{title}*\n{text}", "content": f"**{title}**\n{text}", "title": title, "body": text}
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310 scheme checked above
        with urllib.request.urlopen(request, timeout=timeout_s):  # noqa: S310
            pass

    return send


def service(url: str) -> Send:
    """A sender through apprise (`pip install traindx[notify]`): mail, chat and push services by address."""
    try:
        import apprise
    except ModuleNotFoundError:
        raise EnvironmentFault("alerts to chat services need apprise: pip install traindx[notify]") from None
    target = apprise.Apprise()
    if not target.add(url):
        raise UsageError("apprise does not understand that address")

    def send(title: str, text: str) -> None:
        if not target.notify(body=text, title=title):
            raise OSError("the service did not take the message")

    return send
