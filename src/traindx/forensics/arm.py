"""Join forensics to a recorder: the witness keeps the step, the first non-finite value starts the investigation."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from traindx.forensics import command, lookup, oom
from traindx.forensics.again import SECONDS, investigate
from traindx.forensics.capsule import Capsule, NotSaved, save
from traindx.forensics.guard import SkipGuard
from traindx.forensics.inplace import lines
from traindx.forensics.leaks import SHARE, Graphs
from traindx.forensics.moment import Called, Moment
from traindx.forensics.witness import Witness
from traindx.probe import Scene

LAST_STEPS = 200


def guard(recorder: Any) -> SkipGuard:
    """Let no update with non-finite gradients be made from now on (opt-in); each is counted as `skip_guard`."""
    made = SkipGuard()
    recorder.add(made)
    return made


def arm(recorder: Any, *, seconds: float = SECONDS, capture_batch: bool = False) -> Witness:
    """Let this recorder investigate the first breakdown, once; from then on nothing is kept any more.

    A record on disk gets a capsule of the state too; the batch goes into it only with `capture_batch`.
    """

    def spend(seconds: float) -> None:
        recorder.spent_s += seconds

    witness = Witness(busy=lambda: bool(recorder.busy), batches=capture_batch, spend=spend)
    recorder.add(witness)
    recorder.add(Graphs(None if recorder.plan.budget is None else SHARE))

    def broken(scene: Scene, what: str) -> None:
        try:
            moment = witness.complete()
            moment.drawn = scene.drawn
            found = investigate(moment, scene.params, scene.names, seconds)
            for key, value in found.items():
                scene.fact(key, value)
            folder = getattr(recorder.sink, "path", None)
            if folder is not None:
                _keep(scene, witness, list(recorder.post.latest)[-LAST_STEPS:], Path(folder) / "capsules", found)
        finally:
            witness.off()

    def overwritten(scene: Scene, message: str) -> dict[str, Any]:
        return lines(witness.complete(), scene.params, message, seconds)

    def ended(scene: Scene, error: BaseException) -> None:
        if oom.ran_out(error):
            witness.off()  # what the witness holds is not the program's doing
            told = oom.report(error, scene)
            scene.fact("memory.oom", told)
            scene.event("oom", message=told["message"], where=told["where"])
        elif (wrong := lookup.beyond(error)) is not None:
            scene.fact("data.id_beyond", wrong)

    recorder.on_nonfinite.append(broken)
    recorder.on_error.append(ended)
    recorder.on_inplace.append(overwritten)
    return witness


def _keep(scene: Scene, witness: Witness, rows: list[Any], folder: Path, found: dict[str, Any]) -> None:
    batch, what = witness.kept()
    about = {**_about(witness.moment, found), **command.about(scene.facts), "batch_is": what}
    capsule = Capsule(scene.step, _state(scene, witness), batch, about)
    capsule.signals = [[step, {k: v for k, v in row.items() if isinstance(v, float)}] for step, row in rows]
    try:
        path = save(capsule, folder)
    except (NotSaved, OSError) as why:
        scene.fact("capsule.failed", str(why)[:300])
        return
    scene.event("cap", path=f"{folder.name}/{path.name}")


def _state(scene: Scene, witness: Witness) -> dict[str, Any]:
    """Weights, buffers, optimizers and whatever else has a state, random states, modes."""
    calls = [c for c in witness.moment.happened if isinstance(c, Called)]
    torch_state = calls[0].random if calls and calls[0].random is not None else torch.get_rng_state()
    model = scene.model
    return {
        "models": [dict(m.state_dict()) for m in scene.models],
        "modes": {name: m.training for name, m in model.named_modules()} if model is not None else {},
        "optimizers": [o.state_dict() for o in scene.optimizers],
        **{kind: [t.state_dict() for t in things] for kind, things in witness.others().items()},
        "random": {"torch": torch_state, "python": random.getstate(), "numpy": np.random.get_state()},  # noqa: NPY002
    }


def _about(moment: Moment, found: dict[str, Any]) -> dict[str, Any]:
    cast = next((thing.autocast for thing in moment.happened if thing.autocast), None)
    return {"autocast": str(cast[1]).removeprefix("torch.") if cast else None, "origin": found.get("origin")}
