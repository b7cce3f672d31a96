"""The command a capsule was recorded from, and its replay: the script is launched again in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import select
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from traindx import opening
from traindx.children import ours
from traindx.errors import EnvironmentFault, UsageError
from traindx.forensics import capsule as capsules
from traindx.probes.read.machine.surroundings import redacted

SECONDS = 600.0  # for the script to come to its second step
MOST_ANSWER = 64 << 20


@dataclass(frozen=True)
class Command:
    """What is run, and where."""

    words: tuple[str, ...]  # script and arguments, or -m, module and arguments
    folder: str


def about(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a capsule keeps of the program it comes from: command (without secrets), folder, hash of the script."""
    script = str(facts.get("script") or "")
    if not script:
        return {}
    own: dict[str, Any] = {"folder": str(Path.cwd()), "world_size": facts.get("world_size", 1)}
    words = redacted(sys.argv[1:])
    if Path(script).is_file():
        return {**own, "command": [script, *words], "script_sha256": _hash(Path(script))}
    return {**own, "command": ["-m", script, *words]}


def recorded(capsule: Path) -> str:
    """The command of a capsule, to be shown: data names no program that we then run."""
    held = capsules.load(capsule).about
    words, folder = held.get("command"), held.get("folder")
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words) or not isinstance(folder, str):
        raise UsageError(f"{capsule} does not say which script it comes from; give one: traindx replay CAPSULE train.py ARGS…")
    if isinstance(held.get("world_size"), int) and held["world_size"] > 1:
        raise UsageError(
            f"the run had {held['world_size']} ranks; replay its step from a task: traindx replay CAPSULE file.py:factory"
        )
    return f"cd {shlex.quote(folder)} && traindx replay {shlex.quote(str(capsule.absolute()))} -- {shlex.join(words)}"


def relaunch(capsule: Path, command: Command, *, seconds: float = SECONDS, **options: Any) -> dict[str, Any]:
    """Run the script again and put the capsule into its second step; what it prints is shown only when it fails."""
    capsules.load(capsule)  # refuse a capsule that is none before anything is started
    read, write = os.pipe()
    words = ours("traindx.forensics.relaunch", str(write), str(capsule.resolve()), json.dumps(options))
    environment = {**os.environ, "TRAINDX_DISABLE": "1"}  # a watch() of the script's own would write a record of the replay
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(
                [*words, *command.words], cwd=command.folder, env=environment, pass_fds=(write,), stdout=said, stderr=said
            )
        except OSError as why:
            raise EnvironmentFault(f"the script cannot be started in {command.folder}: {why}") from None
        finally:
            os.close(write)
        answer = _answer(read, child, seconds)
        if not answer:
            raise UsageError(f"the script ended without an answer (exit code {child.returncode}):\n{_tail(said)}")
        found: dict[str, Any] = json.loads(answer)
        if "finite" not in found:
            raise UsageError(f"{found.get('error')}\n{_tail(said)}".rstrip())
    return found


def _answer(read: int, child: subprocess.Popen[bytes], seconds: float) -> bytes:
    data, ends = b"", time.monotonic() + seconds
    try:
        while (left := ends - time.monotonic()) > 0 and len(data) < MOST_ANSWER:
            if not select.select([read], [], [], left)[0]:
                raise UsageError(f"the script did not come to its second step within {seconds:g} s")
            chunk = os.read(read, 1 << 16)
            if not chunk:
                break
            data += chunk
    finally:
        os.close(read)
        if not data:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
        child.wait()
    return data


def _tail(said: IO[bytes], lines: int = 15) -> str:
    said.seek(0)
    text = said.read()[-20_000:].decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])


def _hash(path: Path) -> str:
    with opening.opened(path, named=True) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def given(words: Sequence[str]) -> Command:
    """A command the user gave."""
    if words[0] != "-m" and not Path(words[0]).is_file():
        raise UsageError(f"there is no script '{words[0]}' here, and it is no task (file.py:factory) either")
    return Command(tuple(words), str(Path.cwd()))
