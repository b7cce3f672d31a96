"""`python -m traindx.probes.elastic FOLDER ARGS…`: torch.distributed.run as it is, and a word about ranks that failed.

Only the launcher sees with which code or signal its processes end, and which of them was the first. It changes nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from traindx.record.endings import LAUNCH


def main(folder: Path, args: list[str]) -> None:
    """Run the launcher; what it says of failed processes goes into the record's folder before it says so itself."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    sys.argv = [run.__file__ or "torchrun", *args]
    try:
        run.main(args)
    except ChildFailedError as error:
        note(folder, error.failures)
        raise


def note(folder: Path, failures: Any) -> None:
    """Write rank, exit code and time of each failure; a folder that cannot be written to costs the note."""
    told = [{"rank": int(rank), "exitcode": int(f.exitcode), "time": int(f.timestamp)} for rank, f in failures.items()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LAUNCH.format(os.getpid())).write_text(json.dumps({"failures": told}), encoding="utf-8")
    except OSError as why:
        sys.stderr.write(f"traindx: what the launcher knows of its ranks' ends was not kept: {why}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
