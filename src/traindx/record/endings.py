"""Who left a distributed run first, and how: from what each rank said last and, where it is known, from its launcher.

A rank that goes takes the others with it: they end in a broken connection, or are ended by the launcher. Those are not told.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.plain import say
from traindx.run import Event, Run

LAUNCH = "launch-{}.json"  # of a launcher under `traindx run -m torch.distributed.run`, or of a rank that saw another end
BEHIND = 20  # steps that a silent rank must lie behind the others to be called lost when nothing else is known
_MOST_BYTES = 1 << 20
_BROKEN = re.compile(r"gloo|nccl|connection (closed|reset|refused)|broken pipe|socket|timed? ?out|store", re.IGNORECASE)
_BROKEN_TYPES = ("DistBackendError", "DistNetworkError", "DistStoreError", "DistError", "BrokenPipeError", "ConnectionError")


def note(folder: Path, failures: Sequence[Mapping[str, int]]) -> None:
    """Write rank, exit code and time of each failure; a folder that cannot be written to costs the note."""
    path = folder / LAUNCH.format(os.getpid())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"failures": list(failures)}), encoding="utf-8")
    except OSError as why:
        say(f"how ranks ended was not kept: {why}")


def launches(run: Path, since: float = 0.0) -> dict[str, Any]:
    """What launchers wrote about processes that failed: `failed` rank → {exitcode, time}, and the `first` of them.

    Failures before `since` belong to an earlier launch.
    """
    failed: dict[str, dict[str, Any]] = {}
    for path in sorted(run.glob(LAUNCH.format("*"))):
        try:
            told = opening.parsed(opening.whole(path, _MOST_BYTES))
        except (OSError, ValueError):
            continue  # half written, or of somebody else's: the ranks' own files are still there
        failures = told.get("failures") if isinstance(told, dict) else None
        for one in failures if isinstance(failures, list) else []:
            if not isinstance(one, dict) or not all(isinstance(one.get(k), int) for k in ("rank", "exitcode", "time")):
                continue
            if one["time"] >= int(since):
                failed[str(one["rank"])] = {"exitcode": one["exitcode"], "time": float(one["time"])}
    if not failed:
        return {}
    ended_by_launcher = -int(signal.SIGTERM)  # it ends the others once one has failed; its clock counts whole seconds
    return {
        "failed": failed,
        "first": int(min(failed, key=lambda r: (failed[r]["time"], failed[r]["exitcode"] == ended_by_launcher))),
    }


def lost(runs: Mapping[int, Run], launch: Mapping[str, Any]) -> Iterator[Event]:
    """A `rank_lost` for every rank that went first, with the reason in words."""
    ends = {r: run.steps[1] for r, run in runs.items() if run.steps}
    if len(runs) < 2 or not ends:
        return
    for rank, (how, why) in sorted(_first_to_go(runs, ends, launch).items()):
        at = ends.get(rank, 0)
        yield Event(at, "rank_lost", {"rank": rank, "last_step": at, "how": how, "why": why})


def _first_to_go(runs: Mapping[int, Run], ends: Mapping[int, int], launch: Mapping[str, Any]) -> dict[int, tuple[str, str]]:
    how = {r: str(run.fact("ended") or "") for r, run in runs.items()}
    errors = {r: run.fact("exception") for r, run in runs.items() if how[r] == "exception"}
    own = {r: e for r, e in errors.items() if not _connection(e)}
    if own:  # an error of its own; when all have the same, it is the program's and not a rank's
        alike = len(own) == len(runs) and len({_told(e) for e in own.values()}) == 1
        return {} if alike else {r: ("error", f"ended with {_told(e)}") for r, e in own.items()}
    first = launch.get("first")
    if isinstance(first, int) and first in runs and how[first] not in ("closed", "exit"):
        code = launch["failed"][str(first)]["exitcode"]
        if code < 0:
            return {first: ("signal", f"was ended by {_signal(-code)}")}
        if first not in errors:
            return {first: ("error", f"ended with exit code {code}")}
    if errors:  # their connections broke: to those that said nothing, or that left in good order
        silent = {r: ("silent", "stopped writing, and the others' connections broke") for r in how if r not in errors}
        left = {r: ("left", "left while the others still waited for it") for r in silent if how[r] in ("closed", "exit")}
        return left or silent
    hung = any(run.events_of("hang") for run in runs.values())
    spoke = hung or any(h in ("closed", "exit") for h in how.values())
    newest = max(ends.values())
    gone = [r for r in ends if how[r] == "killed" and (newest - ends[r] > BEHIND or spoke)]
    return dict.fromkeys(gone, ("silent", "stopped writing while others continued")) if len(gone) < len(runs) else {}


def _connection(error: Any) -> bool:
    """Whether an error is only the echo of another rank's end."""
    if not isinstance(error, Mapping):
        return True  # nothing is known of it: accuse nobody
    return str(error.get("type")) in _BROKEN_TYPES or bool(_BROKEN.search(str(error.get("message"))))


def _told(error: Any) -> str:
    kind, message = str(error.get("type")), str(error.get("message")).strip().split("\n")[0][:120]
    place = f" ({Path(str(error['file'])).name}:{error.get('line')})" if error.get("file") else ""
    return f"{kind}: {message}{place}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
