"""Word to the user when something new is found, once per cause: a webhook, or any service apprise knows.

The judge next to a run sends it (`live/`), or the server for all runs it shows.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from traindx.errors import EnvironmentFault, TraindxError, UsageError
from traindx.plain import safe, say

Send = Callable[[str, str], None]  # title, text


@dataclass
class Alerts:
    """Sends one message per cause (or root finding) and stays quiet about it for `cooldown_s`; never waits, never raises."""

    send: Send
    cooldown_s: float = 3600.0
    clock: Callable[[], float] = time.monotonic
    failures: list[str] = field(default_factory=list)
    _told: dict[str, float] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def tell(self, key: str, title: str, text: str) -> bool:
        """Send word under that key unless that was done within the cooldown; whether it was sent."""
        last = self._told.get(key)
        if last is not None and self.clock() - last < self.cooldown_s:
            return False
        self._told[key] = self.clock()
        thread = threading.Thread(target=self._deliver, args=(title, text), daemon=True, name="traindx-alert")
        self._threads = [*(t for t in self._threads if t.is_alive()), thread]
        thread.start()
        return True

    def wait(self, seconds: float) -> None:
        """Let what is on its way arrive."""
        for thread in self._threads:
            thread.join(seconds)

    def _deliver(self, title: str, text: str) -> None:
        try:
            self.send(title, text)
        except Exception as why:  # a mail server that is down must not reach the training; the failure is kept for the record
            self.failures.append(f"{type(why).__name__}: {why}")


def sender(address: str) -> Send:
    """What sends to that address: http and https are webhooks, everything else is apprise's."""
    return webhook(address) if urlsplit(address).scheme in ("http", "https") else service(address)


def webhook(url: str, timeout_s: float = 10.0) -> Send:
    """A sender that posts JSON which Slack, Discord, Mattermost and plain receivers understand."""
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise UsageError(f"a webhook is an http or https address, not {url!r}")

    def send(title: str, text: str) -> None:
        import urllib.request  # with ssl and mail behind it; most runs alert nobody

        body: dict[str, Any] = {"text": f"*{title}*\n{text}", "content": f"**{title}**\n{text}", "title": title, "body": text}
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310 scheme checked above
        with urllib.request.urlopen(request, timeout=timeout_s):  # noqa: S310
            pass

    return send


def service(url: str) -> Send:
    """A sender through apprise (`pip install traindx[notify]`): mail, chat and push services by address."""
    if not urlsplit(url).scheme:
        raise UsageError(f"an alert goes to an address such as https://… or mailto://…, not {url!r}")
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


def everyone(addresses: Sequence[str]) -> Send:
    """A sender to all these addresses; one that fails does not keep word from the others."""
    senders = [sender(a) for a in addresses]

    def send(title: str, text: str) -> None:
        errors = []
        for one in senders:
            try:
                one(title, text)
            except Exception as why:  # collected: the others still get word
                errors.append(f"{type(why).__name__}: {why}")
        if errors:
            raise OSError("; ".join(errors))

    return send


def addresses_of(alerts: str | Sequence[str] | None, standing: Sequence[str] = ()) -> list[str]:
    """The addresses given, or those of the settings. A typo is heard of at once, but one in the settings stops no training."""
    if alerts is not None:
        found = [alerts] if isinstance(alerts, str) else list(alerts)
        for address in found:
            sender(address)
        return found
    return [address for address in standing if _can_be_told(address)]


def _can_be_told(address: str) -> bool:
    try:
        sender(address)
    except TraindxError as why:
        say(f"{why}; {safe(address)!r} gets no alert")
        return False
    return True
