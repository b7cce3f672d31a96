"""`python -m traindx.probes.elastic FOLDER ARGS…`: torch.distributed.run as it is, and a word about ranks that failed.

Only the launcher sees with which code or signal its processes end, and which of them was the first. It changes nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from traindx.record.endings import note


def main(folder: Path, args: list[str]) -> None:
    """Run the launcher; what it says of failed processes goes into the record's folder before it says so itself."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    sys.argv = [run.__file__ or "torchrun", *args]
    try:
        run.main(args)
    except ChildFailedError as error:
        told = error.failures.items()
        note(folder, [{"rank": int(r), "exitcode": int(f.exitcode), "time": int(f.timestamp)} for r, f in told])
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
