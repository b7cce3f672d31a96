"""traindx: the doctor for neural-network training runs.

    with traindx.watch(model, optimizer) as dx:
        ...
    print(dx.diagnosis)

Importing this package loads the standard library and numpy only; every name below is fetched on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_PUBLIC: dict[str, str] = {
    "watch": "traindx.api",
    "diagnose": "traindx.api",
    "check": "traindx.api",
    "apply": "traindx.api",
    "replay": "traindx.api",
    "load": "traindx.api",
    "compare": "traindx.api",
    "runs": "traindx.api",
    "sweep": "traindx.api",
    "Run": "traindx.run",
    "Series": "traindx.run",
    "Matrix": "traindx.run",
    "Event": "traindx.run",
    "Finding": "traindx.finding",
    "Severity": "traindx.finding",
    "Outcome": "traindx.finding",
    "Diagnosis": "traindx.diagnosis",
    "Task": "traindx.api",
    "Settings": "traindx.settings",
    "seed_everything": "traindx.kit.seeds",
    "seed_worker": "traindx.kit.seeds",
    "TraindxError": "traindx.errors",
}
_PACKAGES = ("integrations", "kit", "testing")

__all__ = [
    "Diagnosis",
    "Event",
    "Finding",
    "Matrix",
    "Outcome",
    "Run",
    "Series",
    "Settings",
    "Severity",
    "Task",
    "TraindxError",
    "__version__",
    "apply",
    "check",
    "compare",
    "diagnose",
    "load",
    "replay",
    "runs",
    "seed_everything",
    "seed_worker",
    "sweep",
    "watch",
]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext traindx`"""
    importlib.import_module("traindx.bedside.notebook").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext traindx`"""
    importlib.import_module("traindx.bedside.notebook").unload(shell)


def __getattr__(name: str) -> Any:
    if name == "kit":
        return importlib.import_module("traindx.kit")
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"traindx.{name}")
    raise AttributeError(f"module 'traindx' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
