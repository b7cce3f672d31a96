"""One of the ranks that trains once bare, then observed for each fault that is named: `worker.py FOLDER FAULT…`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from counting import CALLS
from program import train
from torch import Tensor

from traindx.forensics.arm import arm
from traindx.probes.drive import session
from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import DiskSink
from traindx.probes.launch.attach import attach, detach
from traindx.probes.read.data import data
from traindx.probes.read.gradient import gradients
from traindx.probes.read.loss import contract
from traindx.probes.read.machine import replicas

FAULTS = {
    "healthy": 80,
    "same-data": 60,
    "no-set-epoch": 60,
    "around": 40,
    "no-sync": 60,
    "no-wrapper": 40,
    "drift": 100,
    "straggler": 100,
    "uneven-tokens": 120,
    "lone-nan": 40,
    "own-statistics": 40,
    "zero": 80,
    "local-sgd": 250,
}


def observed(fault: str, folder: Path) -> list[Tensor]:
    """Train under a recorder that writes this rank's part of the record."""
    probes = [make() for family in (contract, data, gradients, replicas) for make in family.PROBES]
    recorder = Recorder(DiskSink(folder / fault, fault, session.rank()), budget=0.3, probes=probes)
    recorder.scene.facts.update(session.about(None, []))
    arm(recorder)
    observer = attach(recorder)
    try:
        return train(fault, FAULTS[fault])
    finally:
        detach(observer)
        recorder.close()


def main(folder: Path, faults: list[str]) -> None:
    """Compare a bare and an observed run, then run every fault."""
    torch.set_num_threads(1)
    dist.init_process_group("counting")
    counts: list[int] = []
    weights: list[list[Tensor]] = []
    for way in (lambda: train("healthy", FAULTS["healthy"]), lambda: observed("healthy", folder)):
        before = CALLS.total()
        weights.append(way())
        counts.append(CALLS.total() - before)
    same = all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
    for fault in faults:
        dist.barrier()
        observed(fault, folder)
    if dist.get_rank() == 0:
        (folder / "compared.json").write_text(json.dumps({"same": same, "collectives": counts}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
