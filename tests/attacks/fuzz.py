"""Coverage-guided fuzzing of everything that reads what others wrote: `python -m attacks.fuzz --minutes 60`, from `tests/`.

An input is a folder: relative path → bytes. A mutation that reaches a line of the package for the first time is kept and
mutated further. Nothing but a `TraindxError` may come out of a reader, and no input may take longer than `PATIENCE_S`.
What reached new lines is put into `tests/data/corpus`, which `test_fuzz.py` reads on every run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import traindx
from attacks.mutations import Files, mutated
from traindx.errors import TraindxError

CORPUS = Path(__file__).parents[1] / "data" / "corpus"
PACKAGE = str(Path(traindx.__file__).parent)
PATIENCE_S = 20.0  # processor time of one input; a sound one takes milliseconds
MOST_BYTES = 1 << 20  # of one input
MOST_MEMORY = 4 << 30  # address space, with torch in it
LONGEST_KEPT = 8_000
MOST_KEPT = 20  # inputs of a reader in the corpus


@dataclass(frozen=True)
class Reader:
    """Something that reads, and inputs it knows."""

    name: str
    read: Callable[[Path], Any]
    seeds: Callable[[], list[Files]]


class TooLong(BaseException):
    """An input took longer than it may."""


class Lines:
    """Lines of the package that were reached. Code whose every line was reached is traced no more."""

    def __init__(self) -> None:
        self.left: dict[CodeType, set[int]] = {}
        self.reached = 0

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        left = self.left.get(code)
        if left is None:
            own = code.co_filename.startswith(PACKAGE)
            left = self.left[code] = {n for *_, n in code.co_lines() if n is not None} if own else set()
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        left = self.left[frame.f_code]
        if frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self.reached += 1
        return self._line

    @contextmanager
    def traced(self) -> Iterator[None]:
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(None)


@dataclass
class Outcome:
    """What fuzzing a reader came to."""

    reader: str
    inputs: int = 0
    refused: int = 0  # with an error made on purpose
    lines: int = 0
    kept: int = 0
    failures: dict[str, tuple[str, Files]] = field(default_factory=dict)  # where it arose → what, and the input

    def __str__(self) -> str:
        return (
            f"{self.reader:<20} {self.inputs:>8,} inputs  {self.refused:>8,} refused  {self.lines:>6,} lines  "
            f"{self.kept:>4} kept  {len(self.failures):>2} failures"
        )


def put(files: Files, folder: Path) -> None:
    for name, data in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def tried(reader: Reader, files: Files) -> tuple[str, str] | None:
    """One input: None when it was read or refused on purpose ("" as the place), else where and what went wrong."""
    handler = signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    try:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            put(files, Path(folder))
            reader.read(Path(folder))
    except TraindxError:
        return "", ""
    except (Exception, TooLong, SystemExit) as why:
        frames = [f for f in traceback.extract_tb(why.__traceback__) if f.filename.startswith(PACKAGE)]
        last = frames[-1] if frames else traceback.extract_tb(why.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        what = f"{type(why).__name__}: {str(why)[:200]} at {where}"
        return (f"{type(why).__name__} {where}" if frames else what), what
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    return None


def fuzzed(reader: Reader, *, seconds: float = 0.0, inputs: int = 0, seed: int = 0, keep: bool = False) -> Outcome:
    """Mutate for so many seconds, or so many inputs; with `keep` what reaches new lines is put into the corpus."""
    rng, lines, out = random.Random(seed), Lines(), Outcome(reader.name)
    pool: list[Files] = []
    waiting = [*reader.seeds(), *(files for _, files in corpus(reader.name))]
    known = len(waiting)
    until = time.monotonic() + seconds
    with _limits():
        while waiting or (time.monotonic() < until if seconds else out.inputs < known + inputs):
            old = bool(waiting)
            files = waiting.pop(0) if waiting else mutated(rng.choice(pool[-8:] if rng.random() < 0.3 else pool), pool, rng)
            if sum(map(len, files.values())) > MOST_BYTES and not old:
                continue
            before = lines.reached
            with lines.traced():
                wrong = tried(reader, files)
            out.inputs += 1
            out.refused += wrong == ("", "")
            if wrong and wrong[0] and wrong[0] not in out.failures:
                out.failures[wrong[0]] = (wrong[1], files)
            if old or lines.reached > before:
                pool.append(files)
            if keep and not old and (lines.reached > before or (wrong and wrong[0])):
                out.kept += kept(reader.name, files, always=bool(wrong and wrong[0]))
    out.lines = lines.reached
    return out


def _late(*_: Any) -> None:
    raise TooLong(f"longer than {PATIENCE_S:g} s")


@contextmanager
def _limits() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def corpus(name: str) -> list[tuple[Path, Files]]:
    """The kept inputs of a reader, each a JSON object whose characters are bytes."""
    found = sorted((CORPUS / name).glob("*.json"))
    return [(p, {k: v.encode("latin-1") for k, v in json.loads(p.read_text(encoding="utf-8")).items()}) for p in found]


def kept(name: str, files: Files, *, always: bool) -> bool:
    text = json.dumps({k: v.decode("latin-1") for k, v in sorted(files.items())})
    folder = CORPUS / name
    if not always and (len(text) > LONGEST_KEPT or len(list(folder.glob("*.json"))) >= MOST_KEPT):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json").write_text(text, encoding="utf-8")
    return True


def main() -> int:
    from attacks.readers import READERS

    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("readers", nargs="*", help="which; all when none is named")
    ask.add_argument("--minutes", type=float, default=60.0, help="in all; every reader has at least two when it is an hour")
    ask.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF)
    ask.add_argument("--keep", action="store_true", help="put what reaches new lines into tests/data/corpus")
    given = ask.parse_args()
    chosen = [r for r in READERS if not given.readers or r.name in given.readers]
    each = 60 * given.minutes / len(chosen)
    print(f"fuzzing {len(chosen)} readers for {each:.0f} s each, seed {given.seed}", flush=True)
    outcomes = []
    for reader in chosen:
        outcomes.append(fuzzed(reader, seconds=each, seed=given.seed, keep=given.keep))
        print(outcomes[-1], *(f"\n  {what}" for what, _ in outcomes[-1].failures.values()), flush=True)
    failures = sum(len(o.failures) for o in outcomes)
    print(f"{sum(o.inputs for o in outcomes):,} inputs, {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
