"""Word to the user, once."""

import threading

import numpy as np
import pytest

from runs import a_run, learning
from traindx.alerts import Alerts, webhook
from traindx.diagnosis import diagnose
from traindx.errors import UsageError

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
