"""Tracebacks as plain python shows them."""

from __future__ import annotations

import types


def undetoured(tb: types.TracebackType | None) -> types.TracebackType | None:
    """Without the detour that torch makes for our loss tape: F.x, handle_torch_function, and F.x again."""
    entries = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    for entry in reversed(entries):
        entry.tb_next = tb
        tb = _after_detour(entry) or entry
    return tb


def _after_detour(entry: types.TracebackType) -> types.TracebackType | None:
    detour = entry.tb_next
    again = detour.tb_next if detour and detour.tb_frame.f_code.co_name == "handle_torch_function" else None
    return again if again and again.tb_frame.f_code is entry.tb_frame.f_code else None
