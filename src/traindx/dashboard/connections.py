"""Connections that say nothing are closed, and there are never more than a few: idle sockets must not stop the dashboard."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_S = 10.0  # to send the head of a request
MOST = 128  # connections; beyond that the oldest that says nothing goes
MOST_LINES = 50  # in the log of one server


class Connection(H11Protocol):
    """uvicorn's own, with a clock that runs while the head of a request is awaited."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Somebody has come."""
        super().connection_made(transport)
        others = [c for c in self.connections if c is not self and isinstance(c, Connection) and not c.busy]
        if len(self.connections) > MOST and others:
            min(others, key=lambda c: c.since).transport.abort()
        self.since = self.loop.time()
        self._await()

    @property
    def busy(self) -> bool:
        """A request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Something was said; the clock continues until it is a request."""
        super().data_received(data)
        if self.busy:
            self._rest()
        elif self._clock is None:
            self._await()

    def on_response_complete(self) -> None:
        """An answer is out. uvicorn's own clock waits for the next request."""
        super().on_response_complete()
        self.since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """They have gone."""
        self._rest()
        super().connection_lost(exc)

    def _await(self) -> None:
        self._clock = self.loop.call_later(HEADER_S, lambda: None if self.busy else self.transport.abort())

    def _rest(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


class Few(logging.Filter):
    """Lets the first lines through: whoever can make the server complain cannot fill the disk."""

    left = MOST_LINES

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is still shown."""
        self.left -= 1
        return self.left >= 0


def quiet() -> None:
    """Bound what the server and the event loop may log."""
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(Few())
