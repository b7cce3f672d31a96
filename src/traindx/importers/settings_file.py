"""Hyper-parameters kept in YAML or JSON next to a log: read as plain text, never as objects.

The YAML is only composed into nodes and the nodes are walked here, within limits, so that neither a tag such as
`!!python/object` nor a chain of anchors can do anything.
"""

from __future__ import annotations

import json
import os
from typing import Any

import yaml

from traindx.errors import TraindxError
from traindx.importers import hparams
from traindx.importers.source import MEGABYTE, Source, decode

MOST_BYTES = MEGABYTE
MOST_NODES = 5000
MOST_DEPTH = 8


def read(source: Source, notes: list[str] | None = None) -> dict[str, Any]:
    """The settings of a file by dotted name; empty when there are none. A file that is broken is said in `notes`."""
    if source.path is not None and not os.path.lexists(source.path):
        return {}
    try:
        if source.size <= MOST_BYTES:
            return _settings(decode(source.whole(MOST_BYTES)), json_only=source.stem.lower().endswith(".json"))
        why = f"it is larger than {MOST_BYTES >> 20} MB"
    except TraindxError:
        why = "it cannot be read"
    except json.JSONDecodeError as wrong:
        why = f"line {wrong.lineno} is not JSON"
    except yaml.MarkedYAMLError as wrong:
        why = f"line {wrong.problem_mark.line + 1} is not YAML" if wrong.problem_mark else "it is not YAML"
    except (yaml.YAMLError, RecursionError, ValueError):
        why = "it is not JSON or YAML"
    if notes is not None:
        notes.append(f"the settings in {source.stem} were left out: {why}")
    return {}


def _settings(text: str, *, json_only: bool) -> dict[str, Any]:
    if json_only or text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
            return hparams.collect(value) if isinstance(value, dict) else {}
        except json.JSONDecodeError:
            if json_only:
                raise
    return _Walk().of(yaml.compose(text, Loader=yaml.SafeLoader))


class _Walk:
    def __init__(self) -> None:
        self.left = MOST_NODES

    def of(self, node: Any) -> dict[str, Any]:
        value = self._plain(node, 0)
        return hparams.collect(value) if isinstance(value, dict) else {}

    def _plain(self, node: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > MOST_DEPTH or node is None:
            return None
        if isinstance(node, yaml.ScalarNode):
            return scalar(node.value[:500]) if node.style is None else node.value[:500]
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(child, depth + 1) for child in node.value[:64]]
        if isinstance(node, yaml.MappingNode):
            return {
                key.value[:200]: self._plain(child, depth + 1)
                for key, child in node.value[:2000]
                if isinstance(key, yaml.ScalarNode)
            }
        return None


def scalar(text: str) -> Any:
    """A word as number, truth value, nothing or itself."""
    low = text.strip().lower()
    if low in ("true", "false"):
        return low == "true"
    if low in ("null", "none", "~", ""):
        return None
    if not text.isascii() or "_" in text:
        return text
    try:
        return int(text) if len(text) < 19 else text
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
