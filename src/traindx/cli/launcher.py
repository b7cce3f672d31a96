"""`traindx run -m torch.distributed.run …`: start the launcher, read what its ranks wrote, tell it once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traindx import diagnosis as diagnosis_
from traindx import ranks as ranks_
from traindx import record
from traindx.cli import options
from traindx.errors import NothingReadable, UsageError
from traindx.plain import say
from traindx.probes import session, torchrun
from traindx.settings import Settings


def ranks(
    args: list[str],
    folder: Path | None,
    own: list[str],
    nproc: int | None,
    chosen: Settings,
    where: tuple[str, Path | None],
    page: dict[str, Any],
) -> int:
    """Start the launcher, let its ranks write, and tell what they saw; with `nproc` once more on that number of processes."""
    launch_ = torchrun.parsed(args)
    home = session.folder(Path(launch_.program[-1 if launch_.program[0] == "-m" else 0]).stem, folder)
    times = 1
    if nproc is not None:
        if not launch_.nproc or launch_.nproc % nproc or launch_.nproc == nproc:
            raise UsageError(f"--nproc {nproc} must divide the launcher's --nproc-per-node ({launch_.nproc or 'not a number'})")
        times = launch_.nproc // nproc
    first = home / "ranks" if nproc else home
    code = torchrun.run(launch_.words(first, own))
    try:
        many = record.read(first)
        diagnoses = [diagnosis_.diagnose(many, chosen)]
        if nproc is not None:
            torchrun.run(launch_.words(home / f"on-{nproc}", own, nproc), times)
            few = record.read(home / f"on-{nproc}")
            diagnoses.append(diagnosis_.diagnose(few, chosen))
    except (OSError, NothingReadable) as why:  # the program is done: its exit code stands, whatever happens to our page
        say(f"no diagnosis could be made: {why}")
        return code
    diagnoses = options.gated(diagnoses, chosen)
    options.deliver(diagnoses[:1], *where, **page)
    if nproc is not None:
        codes = [[(f.code, f.message) for f in d.findings if f.severity.value != "info"] for d in diagnoses]
        for line in ranks_.one_process(many, few, codes[0], codes[1], nproc):
            say(line)
    if not page["quiet"]:
        say(f"the record is in {home}")
    return code or options.exit_code(diagnoses[:1], chosen.fail_on)
