"""Why a frame is compiled again: the guard of each earlier entry that failed, and the call's number."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from types import CodeType
from typing import Any

from compdbg import probe
from compdbg.events import RecompileReason
from compdbg.hooks import userline
from compdbg.hooks.compiling import Compiling
from compdbg.hooks.current import plain_id

_MOST = 16
"""Entries whose failed guards are asked for; torch keeps at most 8 by default."""
_FAILED = re.compile(r"^(?P<entry>[^\s:]*\d+/\d+\S*): (?P<reason>.*)$", re.DOTALL)
_explained: set[tuple[str, str]] = set()


def record_reasons(frame: str, compile_id: str, reasons: Iterable[str]) -> None:
    """Emit torch's own reasons, one for each earlier entry."""
    for text in list(reasons)[:_MOST]:
        found = _FAILED.match(text)
        entry, reason = (found["entry"], found["reason"]) if found else ("", text)
        guard, _, stack = reason.partition("\nUser stack trace:\n")
        event = RecompileReason(
            frame=frame,
            compile_id=compile_id,
            failed_compile_id=plain_id(entry) if entry else "",
            reason=" ".join(guard.split())[:1000],
            where=userline.of_text(stack) if stack else None,
        )
        probe.emit(event)
    _explained.add((frame, compile_id))


def explain_if_unexplained(record: Compiling, said: dict[str, Any]) -> None:
    """Ask for the failed guards where torch does not: entries of other instances are no recompile to it."""
    key = (record.frame, record.compile_id)
    if key in _explained:
        _explained.discard(key)
        return
    entries, frame = said.get("cache_entries") or (), said.get("frame")
    guards = sys.modules.get("torch._dynamo.guards")
    if not entries or frame is None or guards is None:
        return
    reasons = [
        guards.get_guard_fail_reason_helper(entry.guard_manager, frame.f_locals, entry.compile_id, None)
        for entry in list(entries)[:_MOST]
        if hasattr(entry.guard_manager, "closure_vars")
    ]
    record_reasons(record.frame, record.compile_id, reasons)
    _explained.discard(key)


def this_call(code: CodeType) -> int | None:
    """The number of the call that is being converted, or None where calls are not counted."""
    counting = sys.modules.get("compdbg.hooks.frame_calls")
    calls = 0 if counting is None else int(counting.calls_of(code))
    return calls + 1 if calls else None
