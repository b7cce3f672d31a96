"""One check of many things in one test. A test for each of 130 conditions takes longer to call than to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def each(things: Iterable[T], name: Callable[[T], str] = str) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Turn a check of one thing into a test of all. Every thing that fails is named."""
    every = list(things)

    def of_all(check: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            failed = []
            for thing in every:
                try:
                    check(thing)
                except Exception as why:  # the others are looked at as well
                    failed.append(f"{name(thing)}: {type(why).__name__}: {why}")
            assert every and not failed, "\n".join(failed)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return of_all
