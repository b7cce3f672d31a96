"""trackio's SQLite databases: one per project, metrics as JSON per step."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from traindx.errors import NothingReadable
from traindx.importers import axis, hparams, jsonlog, sqlite
from traindx.importers.source import MAX_CELLS, Source
from traindx.importers.table import Log, Options, Rows, clean_name


def can_read(source: Source) -> bool:
    """Whether it is such a database: a table of metrics by run name."""
    if not source.head.startswith(sqlite.MAGIC):
        return False
    try:
        with sqlite.opened(source) as link:
            return {"run_name", "step", "metrics"} <= sqlite.columns(link, "metrics")
    except NothingReadable:
        return False


def read(source: Source, options: Options) -> list[Log]:
    """Every run of a project, in the order of their names."""
    with sqlite.opened(source) as link:
        have = sqlite.columns(link, "metrics")
        when = "timestamp" if "timestamp" in have else "NULL"
        order = "run_name, id" if "id" in have else "run_name, rowid"
        query = f"SELECT run_name, step, {when}, metrics FROM metrics ORDER BY {order} LIMIT ?"  # noqa: S608
        runs: dict[str, Rows] = {}
        bad: dict[str, int] = {}
        for name, step, stamp, packed in link.execute(query, (MAX_CELLS // 4,)):
            rows = runs.setdefault(str(name), Rows(options.axes))
            values = _unpacked(packed)
            if values is None:
                bad[str(name)] = bad.get(str(name), 0) + 1
                continue
            rows.add(
                {
                    "step": step,
                    "timestamp": _seconds(stamp),
                    **{k: v for k, v in values.items() if k not in ("step", "timestamp")},
                }
            )
        configs = _configs(link)
    logs = [_log(source, name, rows, bad.get(name, 0), configs.get(name, {})) for name, rows in runs.items() if rows.columns()]
    if not logs:
        raise NothingReadable(f"{source.name}: trackio's database holds no metrics")
    return logs


def _log(source: Source, name: str, rows: Rows, bad: int, config: dict[str, Any]) -> Log:
    log = axis.log_of(rows.columns(), rows.count, "trackio", f"{source.name}#{clean_name(name)}", rows)
    log.facts["name"] = clean_name(name)
    log.hparams = hparams.collect(config)
    if bad:
        log.damage(f"{bad} records whose JSON is broken were skipped")
    return log


def _unpacked(packed: Any) -> dict[str, Any] | None:
    text = packed.decode("utf-8", "replace") if isinstance(packed, bytes) else packed
    value = jsonlog.loads(text) if isinstance(text, str) else None
    return value if isinstance(value, dict) else None


def _seconds(stamp: Any) -> float | None:
    if isinstance(stamp, int | float):
        return float(stamp)
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return None


def _configs(link: Any) -> dict[str, dict[str, Any]]:
    if not {"run_name", "config"} <= sqlite.columns(link, "configs"):
        return {}
    out = {}
    for name, packed in link.execute("SELECT run_name, config FROM configs LIMIT 10000"):
        found = _unpacked(packed)
        if found is not None:
            out[str(name)] = found
    return out
