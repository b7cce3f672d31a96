"""Clear means looked at: every rule on a run that lacks what it is about."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from probes.watched import fit
from runs import a_run, learning
from traindx.diagnosis import examine
from traindx.finding import Outcome, Status
from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import MemorySink
from traindx.probes.launch.attach import attach, detach
from traindx.rule import catalogue
from traindx.run import Event
from traindx.subjects import SUBJECTS, missing

# Of the families about something special: what is looked at in every training all the same.
ANYWHERE = {
    "TUNE002": "targets that are all ignored are looked for in every batch",
    "EVAL010": "it compares loss and accuracy of training",
}


@pytest.fixture(scope="module")
def plain() -> dict[str, Outcome]:
    """Outcomes on a training without evaluation, schedule, clipping, checkpoints, special layers or half precision."""
    torch.manual_seed(0)
    sink = MemorySink()
    recorder = Recorder(sink, budget=None)
    observer = attach(recorder)
    try:
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        fit(net, F.cross_entropy, torch.randn(64, 8), torch.randint(0, 3, (64,)), steps=120)
    finally:
        detach(observer)
        recorder.close()
    return {o.code: o for o in examine(sink.run())}


@pytest.mark.parametrize("code", [c for c, r in catalogue().items() if r.subject])
def test_a_rule_whose_subject_is_not_there_is_blind_and_says_so(code: str, plain: dict[str, Outcome]) -> None:
    found = plain[code]
    assert found.status in (Status.BLIND, Status.MUTED) and found.reason, found


@pytest.mark.parametrize("code", [c for c in catalogue() if c[:4] in ("EVAL", "DIST", "TUNE", "SPEC")])
def test_nothing_special_is_clear_in_a_plain_training(code: str, plain: dict[str, Outcome]) -> None:
    assert plain[code].status is not Status.CLEAR or code in ANYWHERE, plain[code]


PRESENT: dict[str, dict[str, Any]] = {
    "evaluation": {"loss__val": learning(50)},
    "batch-norm": {"facts": {"model.outline": [{"name": "1", "class": "BatchNorm1d"}]}},
    "half-precision": {"facts": {"amp.autocast": "float16"}},
    "experts": {"facts": {"model.never_called": ["experts.3"]}},
    "load": {"events": (Event(0, "load", {}),)},
    "checkpoint": {"events": (Event(9, "checkpoint", {}),)},
    "schedule": {"facts": {"schedule.name": "StepLR"}},
    "clipping": {"clip__norm": learning(50)},
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_is_met_where_it_is_and_missed_where_it_is_not(subject: str) -> None:
    assert missing(subject, a_run(loss__train=learning(400)))
    assert not missing(subject, a_run(loss__train=learning(400), **PRESENT[subject]))


def test_every_subject_is_known_and_used() -> None:
    assert {r.subject for r in catalogue().values()} - {""} == set(SUBJECTS)
