"""Why a frame is compiled again: the guard of each earlier entry that failed, and the call's number."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from compdbg import probe
from compdbg.events import FrameEnd, RecompileLimit, RecompileReason
from compdbg.hooks import userline
from compdbg.hooks.base import contained
from compdbg.hooks.compiling import converters
from compdbg.hooks.current import compile_id, frame_key, plain_id
from compdbg.hooks.requests import request_of

_MOST = 16
"""Entries whose failed guards are asked for; torch keeps at most 8 by default."""
_FAILED = re.compile(r"^(?P<entry>[^\s:]*\d+/\d+\S*): (?P<reason>.*)$", re.DOTALL)


def record_reasons(frame: str, compile_id: str, said: dict[str, Any]) -> None:
    """Emit which guard of each earlier entry failed; `said` are the locals of `_compile`.

    torch asks for the reasons itself, but not where the entries are of other instances: to it that
    is no recompile.
    """
    for text in list(said.get("reasons") or _ask(said))[:_MOST]:
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


def _ask(said: dict[str, Any]) -> list[str]:
    entries, frame = said.get("cache_entries") or (), said.get("frame")
    guards = sys.modules.get("torch._dynamo.guards")
    if not entries or frame is None or guards is None:
        return []
    return [
        guards.get_guard_fail_reason_helper(entry.guard_manager, frame.f_locals, entry.compile_id, None)
        for entry in list(entries)[:_MOST]
        if hasattr(entry.guard_manager, "closure_vars")
    ]


def this_call(code: CodeType) -> int | None:
    """The number of the call that is being converted, or None where calls are not counted."""
    counting = sys.modules.get("compdbg.hooks.frame_calls")
    calls = 0 if counting is None else int(counting.calls_of(code))
    return calls + 1 if calls else None


def limit() -> int | None:
    """How many entries torch makes for one frame and one set of objects; None where it has no limit."""
    config = sys.modules.get("torch._dynamo.config")
    value = getattr(config, "recompile_limit", None)
    return value if isinstance(value, int) else None


def on_limit(original: Callable[..., Any]) -> Callable[..., Any]:
    def exceeds_recompile_limit(cache_size: Any, this_compile: Any) -> Any:
        answer = original(cache_size, this_compile)
        if answer[0] and probe.active():
            with contained("dynamo"):
                _limit_hit(str(answer[1]), sys._getframe(1))
        return answer

    return exceeds_recompile_limit


def _limit_hit(limit: str, compile_frame: FrameType) -> None:
    said = compile_frame.f_locals
    code = said["code"]
    config = sys.modules["torch._dynamo.config"]
    raises = bool(said.get("one_graph") or getattr(config, "fail_on_recompile_limit_hit", False))
    value = getattr(config, limit, None)
    frame, this_compile = frame_key(code), compile_id() or ""
    _, wrapper = converters(compile_frame)
    request = request_of(wrapper)
    with contained("dynamo"):
        record_reasons(frame, this_compile, said)
    probe.emit(
        RecompileLimit(
            frame=frame,
            compile_id=this_compile,
            limit=limit,
            limit_value=value if isinstance(value, int) else None,
            call=this_call(code),
            raises=raises,
            request=request,
        )
    )
    result = "failed" if raises else "eager"
    probe.emit(
        FrameEnd(
            frame=frame, compile_id=this_compile, result=result, reason=f"{limit} ({value})", request=request
        )
    )
