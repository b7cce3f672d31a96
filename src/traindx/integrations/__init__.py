"""One framework to a file; each turns the framework's events into ours. Importing one imports its framework."""

from __future__ import annotations

import os
import sys
from typing import Any


def lightning_callbacks() -> list[Any]:
    """For Lightning's `callbacks_factory` entry points: a callback under TRAINDX=1 or `traindx run`, else nothing."""
    attached = sys.modules.get("traindx.probes.launch.attach")
    if os.environ.get("TRAINDX") != "1" and (attached is None or not attached.PATCHES.observers):
        return []
    from traindx.integrations.fit import hosted
    from traindx.integrations.lightning import Traindx

    return [Traindx(announce=True)] if os.environ.get("TRAINDX") == "1" or hosted() else []
