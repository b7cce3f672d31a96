"""Join forensics to a recorder: the witness keeps the step, the first non-finite value starts the investigation."""

from __future__ import annotations

from typing import Any

from traindx.forensics.again import investigate
from traindx.forensics.witness import Witness
from traindx.probe import Scene


def arm(recorder: Any, *, seconds: float = 10.0) -> Witness:
    """Let this recorder investigate the first breakdown, once."""
    witness = Witness()
    recorder.add(witness)

    def broken(scene: Scene, what: str) -> None:
        for key, value in investigate(witness.moment, scene.params, scene.names, seconds).items():
            scene.fact(key, value)

    recorder.on_nonfinite.append(broken)
    return witness
