"""Word to the user when something new is found, once per cause: a webhook, or any service apprise knows.

Live alerts come from a process of their own that reads the record: training never waits for a judgement or a network, and
word goes out even when the training process was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from traindx import api
from traindx import diagnosis as diagnosis_
from traindx.children import ours
from traindx.diagnosis import Diagnosis
from traindx.errors import EnvironmentFault, TraindxError, UsageError
from traindx.finding import Severity
from traindx.plain import say
from traindx.record import list_records
from traindx.report.words import safe

Send = Callable[[str, str], None]  # title, text

EVERY_S = 10.0  # between two looks at a record
PATIENCE = 4.0  # at least so many times what the last judgement took: on a long run alerts may not eat a core
LOST_S = 300.0  # a record that never appears is given up


@dataclass
class Alerts:
    """Sends one message per cause (or root finding) and stays quiet about it for `cooldown_s`; never waits, never raises."""

    send: Send
    least: Severity = Severity.WARNING
    cooldown_s: float = 3600.0
    clock: Callable[[], float] = time.monotonic
    failures: list[str] = field(default_factory=list)
    _told: dict[str, float] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def consider(self, diagnosis: Diagnosis) -> bool:
        """Send word of the diagnosis when its worst story is new; whether anything was sent."""
        loud = [s for s in diagnosis.stories if s.severity >= self.least]
        if not loud:
            return False
        key = diagnosis.causes[0].cause.name if diagnosis.causes else loud[0].root.code
        where = f"steps {diagnosis.run.steps[0]}–{diagnosis.run.steps[1]} of " if diagnosis.run.steps else ""
        text = [safe(diagnosis.summary, 500), f"{where}{safe(diagnosis.run.source, 200) or 'a run'}"]
        if diagnosis.causes:
            text.insert(1, safe(diagnosis.causes[0].prescription, 400))
        return self.tell(key, f"traindx: {diagnosis.verdict.replace('-', ' ')}", "\n".join(text))

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


def addresses_of(alerts: str | Sequence[str] | None) -> list[str]:
    """The addresses given, or those of TRAINDX_ALERT (separated by spaces); checked, so that a typo is heard of at once."""
    given = alerts if alerts is not None else os.environ.get("TRAINDX_ALERT", "").split()
    found = [given] if isinstance(given, str) else list(given)
    for address in found:
        sender(address)
    return found


_children: list[subprocess.Popen[bytes]] = []  # held, so that a child that is done is collected and not complained of


def follow(record: Path, addresses: Sequence[str], every_s: float = EVERY_S) -> bool:
    """Start the process that watches the record and sends word; addresses hold secrets: they travel by pipe, not by argv."""
    if not addresses:
        return False
    task = json.dumps({"record": str(Path(record).absolute()), "addresses": list(addresses), "every_s": every_s})
    command, quiet = ours("traindx.alerts"), subprocess.DEVNULL
    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)
        with child.stdin as pipe:  # type: ignore[union-attr]
            pipe.write(task.encode())
    except OSError as why:  # no process to be had: training goes on, without alerts
        say(f"no alerts for this run: {why.strerror or why}")
        return False
    _children.append(child)
    return True


def watch_record(record: Path, alerts: Alerts, every_s: float = EVERY_S) -> None:
    """Look at the record until its run has ended, and once more then; a run that was killed is news of its own."""
    begun, stamp = time.monotonic(), None
    while True:
        found = list_records(record) if record.is_dir() else []
        if not found and time.monotonic() - begun > LOST_S:
            return
        took = 0.0
        if found and (found[0].last_step, found[0].ended) != stamp:
            stamp = (found[0].last_step, found[0].ended)
            looked = time.monotonic()
            with contextlib.suppress(TraindxError):
                runs = api.load(record)
                for run in runs[:1]:
                    alerts.consider(diagnosis_.diagnose(run))
            took = time.monotonic() - looked
        if found and found[0].ended != "running":
            if found[0].ended == "killed":
                alerts.tell(
                    "killed", "traindx: the run was killed", f"{safe(found[0].name, 100)} stopped at step {found[0].last_step}"
                )
            return
        time.sleep(max(every_s, PATIENCE * took))


def main() -> None:
    """The process behind `follow`: reads what to watch from stdin."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    task = json.loads(sys.stdin.read())
    alerts = Alerts(everyone(task["addresses"]))
    watch_record(Path(task["record"]), alerts, float(task["every_s"]))
    alerts.wait(30.0)


if __name__ == "__main__":
    main()
