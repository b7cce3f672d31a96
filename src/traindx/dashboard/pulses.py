"""One look per second at each run that somebody watches, told to all who watch it: fifty viewers cost what one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from starlette.concurrency import run_in_threadpool

from traindx.dashboard.library import Library
from traindx.report import json as json_

EVERY_S = 1.0
HEARTBEAT = ": still here\n\n"


class Pulses:
    """Hands the same news of a run to every listener; stops looking when nobody listens."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._listeners: dict[str, set[asyncio.Queue[str]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._last: dict[str, str] = {}

    async def of(self, run_id: str) -> AsyncGenerator[str]:
        """Lines of server-sent events for one listener: the run at once, then every change."""
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=4)
        listeners = self._listeners.setdefault(run_id, set())
        listeners.add(queue)
        if run_id in self._last:
            queue.put_nowait(self._last[run_id])
        if run_id not in self._tasks:
            self._tasks[run_id] = asyncio.create_task(self._watch(run_id))
        try:
            while True:
                yield await queue.get()
        finally:
            listeners.discard(queue)
            if not listeners and run_id in self._tasks:
                self._tasks.pop(run_id).cancel()
                self._last.pop(run_id, None)
                self._listeners.pop(run_id, None)

    async def _watch(self, run_id: str) -> None:
        quiet = 0
        while True:
            line = await run_in_threadpool(self._line, run_id)
            if line != self._last.get(run_id):
                self._last[run_id], quiet = line, 0
                self._tell(run_id, line)
            elif (quiet := quiet + 1) % 10 == 0:  # proxies drop silent connections
                self._tell(run_id, HEARTBEAT)
            await asyncio.sleep(EVERY_S)

    def _tell(self, run_id: str, line: str) -> None:
        for queue in self._listeners.get(run_id, ()):
            if queue.full():  # a listener that sleeps gets the newest, not everything
                queue.get_nowait()
            queue.put_nowait(line)

    def _line(self, run_id: str) -> str:
        library = self._library
        (run, version), entry = library.newest(run_id), library.entry(run_id)
        if run is None or entry is None:
            return 'data: {"gone": true}\n\n'
        library.entries()  # the state of the process is part of the list
        entry = library.entry(run_id) or entry
        known = library.judgement(entry, first=True)
        data: dict[str, Any] = {
            "version": version,
            "steps": run.steps,
            "state": entry.state,
            "judged": known.stamp if known else None,
        }
        return f"data: {json.dumps(json_.plain(data))}\n\n"
