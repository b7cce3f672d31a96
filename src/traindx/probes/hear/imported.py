"""To be called when a module has been imported: frameworks come after us, and nothing is ever imported on our initiative."""

from __future__ import annotations

import importlib.abc
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

Then = Callable[[], None]


class _Arrivals(importlib.abc.MetaPathFinder):
    """Stands first in the path of finders while there is something to wait for; finds nothing by itself."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Then]] = {}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> Any:
        if fullname not in self.waiting:
            return None
        others = (f.find_spec(fullname, path, target) for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next((s for s in others if s is not None), None)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            run(module)
            for then in self.waiting.pop(fullname, ()):
                then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_arrivals = _Arrivals()


def when_imported(name: str, then: Then) -> Then:
    """Call `then` as soon as the module `name` has been imported (now, if it is); gives the function that calls it off."""
    if name in sys.modules:
        then()
        return lambda: None
    if _arrivals not in sys.meta_path:
        sys.meta_path.insert(0, _arrivals)
    _arrivals.waiting.setdefault(name, []).append(then)

    def off() -> None:
        calls = _arrivals.waiting.get(name, [])
        if then in calls:
            calls.remove(then)
        if not calls:
            _arrivals.waiting.pop(name, None)
        if not _arrivals.waiting and _arrivals in sys.meta_path:
            sys.meta_path.remove(_arrivals)

    return off
