"""Join forensics to a recorder: the witness keeps the step, the first non-finite value starts the investigation."""

from __future__ import annotations

from typing import Any

from traindx.forensics.again import SECONDS, investigate
from traindx.forensics.witness import Witness
from traindx.probe import Scene


def arm(recorder: Any, *, seconds: float = SECONDS) -> Witness:
    """Let this recorder investigate the first breakdown, once; from then on nothing is kept any more."""
    witness = Witness(busy=lambda: bool(recorder.busy))
    recorder.add(witness)

    def broken(scene: Scene, what: str) -> None:
        witness._stop()
        try:
            found = investigate(witness.moment, scene.params, scene.names, seconds)
        finally:
            witness.off()
        for key, value in found.items():
            scene.fact(key, value)

    recorder.on_nonfinite.append(broken)
    return witness
