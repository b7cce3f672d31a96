"""One framework to a file; each turns the framework's events into ours. Importing one imports its framework."""

from __future__ import annotations

import os
from typing import Any


def lightning_callbacks() -> list[Any]:
    """For Lightning's `callbacks_factory` entry points: a callback when TRAINDX=1 is set, else nothing (and no import)."""
    if os.environ.get("TRAINDX") != "1":
        return []
    from traindx.integrations.lightning import Traindx

    return [Traindx()]
