"""The pytest plugin: fixtures `assert_healthy`, `assert_trainable` and `traindx_watch`; unused they cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from traindx import testing


@pytest.fixture
def assert_healthy() -> Callable[..., Any]:
    """`traindx.testing.assert_healthy`."""
    return testing.assert_healthy


@pytest.fixture
def assert_trainable() -> Callable[..., Any]:
    """`traindx.testing.assert_trainable`."""
    return testing.assert_trainable


@pytest.fixture
def traindx_watch(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`traindx.watch` with the record in the test's own folder; whatever is still open is closed after the test."""
    from traindx import api

    opened: list[Any] = []

    def watch(*models_and_optimizers: Any, **options: Any) -> Any:
        options.setdefault("dir", tmp_path / f"traindx-{len(opened)}")
        opened.append(api.watch(*models_and_optimizers, **options))
        return opened[-1]

    yield watch
    for dx in opened:
        dx.close()
