"""Opening foreign SQLite files without changing them and without trusting them."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from traindx.errors import NothingReadable
from traindx.importers.source import MEGABYTE, Source

MAGIC = b"SQLite format 3\x00"
MOST_COPY = 512 * MEGABYTE
MOST_OPCODES = 2_000_000_000  # of the virtual machine: about a minute


@contextmanager
def opened(source: Source) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write; a database with a write-ahead log is read from a private copy."""
    if source.path is None:
        raise NothingReadable(f"{source.name}: a database cannot be read from a pipe; give its path")
    with tempfile.TemporaryDirectory(prefix="traindx-") as folder:
        path, frozen = source.path, True
        journal = path.with_name(path.name + "-wal")
        if journal.is_file() and not journal.is_symlink() and journal.stat().st_size:
            if source.size + journal.stat().st_size > MOST_COPY:
                raise NothingReadable(f"{source.name}: is being written to and too large to copy; close its writer first")
            path = Path(folder) / "copy.db"
            _copy(source, path)
            _copy(Source.of(journal), path.with_name("copy.db-wal"))
            frozen = False
        uri = f"file:{quote(str(path.absolute()))}?mode={'ro&immutable=1' if frozen else 'rw'}"
        try:
            link = sqlite3.connect(uri, uri=True)
        except sqlite3.Error as why:
            raise NothingReadable(f"{source.name}: the database cannot be opened: {why}") from None
        try:
            _guard(link)
            yield link
        except sqlite3.Error as why:
            raise NothingReadable(f"{source.name}: the database is damaged or not what it seems: {why}") from None
        finally:
            link.close()


def _copy(source: Source, to: Path) -> None:
    with source.open() as file, to.open("wb") as out:
        shutil.copyfileobj(file, out, MEGABYTE)


def _guard(link: sqlite3.Connection) -> None:
    """Limits: no functions from the schema, no endless query, no giant cell."""
    link.execute("PRAGMA trusted_schema=OFF")
    link.execute("PRAGMA query_only=ON")
    link.execute("PRAGMA cell_size_check=ON")
    link.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 64 * MEGABYTE)
    spent = 0

    def count() -> int:
        nonlocal spent
        spent += 1
        return int(spent > MOST_OPCODES // 1_000_000)

    link.set_progress_handler(count, 1_000_000)
    link.text_factory = lambda raw: raw.decode("utf-8", "replace")


def columns(link: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a real table (a view does not count); empty when there is none of that name."""
    kind = link.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if kind is None or kind[0] != "table":
        return set()
    return {row[1] for row in link.execute(f'PRAGMA table_info("{table}")')}


def tables(source: Source) -> set[str]:
    """The names of the tables of a database; empty when it is none."""
    if not source.head.startswith(MAGIC):
        return set()
    try:
        with opened(source) as link:
            return {row[0] for row in link.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000")}
    except NothingReadable:
        return set()
