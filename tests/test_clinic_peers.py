"""Other tools on the clinic's cases are scored fairly."""

from __future__ import annotations

from clinic import peers
from clinic.case import HEALTHY, SICK, written

ALL = list(written())
by_name = {c.name: c for c in ALL}


def test_a_peer_is_right_when_a_loud_finding_is_about_the_subject_and_advice_counts_neither_way() -> None:
    sick, healthy = by_name["adam_lr_half"], by_name["warm_restarts"]
    assert peers.scored("runmedic", sick, [("warning", "loss_spikes")])["right"]
    assert not peers.scored("runmedic", sick, [("info", "loss_spikes")])["said"]
    assert not peers.scored("runmedic", sick, [("warning", "input_bound")])["right"]
    assert not peers.scored("torch-audit", healthy, [("WARN", "TA200")])["said"], "advice on speed"
    assert peers.scored("torch-audit", healthy, [("ERROR", "TA100")])["said"] == ["TA100"]
    assert not peers.scored("trainpulse", healthy, [("critical", "nan_detector")])["right"]


def test_any_beginning_of_the_peers_cases_is_a_fair_sample() -> None:
    order = peers.ordered()
    assert len(order) == len(ALL) and order[:9] == peers.ordered()[:9]
    assert [c.kind for c in order[:6]] == [SICK, SICK, HEALTHY] * 2
    figures = {"sick": 4, "right": 3, "any": 3, "healthy": 2, "alarmed": 0, "failed": 0}
    text = peers.page({"a": {"version": "1.0", "reads": "x", **figures, "alarmed": 1, "traindx": figures}})
    assert "| a 1.0 | x | 75.0 % (3/4" in text and "50.0 % (1/2" in text and "0.0 % (0/2" in text
