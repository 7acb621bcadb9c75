"""Phases with their time, as torch's own `dynamo_timed` measures them.

A phase is written when it begins and when it ends, so that a stall shows what it was in; what
is recorded meanwhile has the phase as its parent. Passes are left out: they are events of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import Span, SpanBegin
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.current import compile_id, plain_id
from compdbg.hooks.importing import seconds

NAME = "spans"
TORCH = "torch"
_PASS = "pass."

_LOGGER = "torch._dynamo.utils:ChromiumEventLogger."
START = Target(_LOGGER + "log_event_start", ("event_name", "time_ns", "compile_id"))
END = Target(_LOGGER + "log_event_end", ("event_name", "time_ns", "start_time_ns", "compile_id"))


class _Open(NamedTuple):
    name: str
    seq: int | None
    inside: AbstractContextManager[None]


_here = threading.local()


def _stack() -> list[_Open]:
    stack: list[_Open] = _here.__dict__.setdefault("stack", [])
    return stack


def _begin(name: str, given: Any) -> None:
    seq = probe.emit(SpanBegin(name=name, compile_id=_id(given), category=TORCH))
    inside = probe.under(seq)
    inside.__enter__()
    _stack().append(_Open(name, seq, inside))


def _end(name: str, duration_ns: int, given: Any) -> None:
    stack = _stack()
    if not any(one.name == name for one in stack):
        return
    while True:
        one = stack.pop()
        one.inside.__exit__(None, None, None)
        if one.name == name:
            break
    ended = Span(
        name=name, duration_s=duration_ns / 1e9, compile_id=_id(given), category=TORCH, begin=one.seq
    )
    probe.emit(ended)


def _id(given: Any) -> str | None:
    return compile_id() if given is None else plain_id(given)


def _around_start(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_event_start(
        self: Any, event_name: str, time_ns: int, metadata: Any, *rest: Any, **more: Any
    ) -> Any:
        if probe.active() and not event_name.startswith(_PASS):
            with contained(NAME):
                _begin(event_name, rest[1] if len(rest) > 1 else more.get("compile_id"))
        return original(self, event_name, time_ns, metadata, *rest, **more)

    return log_event_start


def _around_end(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_event_end(
        self: Any, event_name: str, time_ns: int, metadata: Any, start_time_ns: int, *rest: Any, **more: Any
    ) -> Any:
        if not event_name.startswith(_PASS):
            with contained(NAME):
                given = rest[1] if len(rest) > 1 else more.get("compile_id")
                _end(event_name, time_ns - start_time_ns, given)
        return original(self, event_name, time_ns, metadata, start_time_ns, *rest, **more)

    return log_event_end


def _install_torch(patches: Patches) -> None:
    """torch has just been imported, if it was imported under our eyes."""
    taken = seconds.pop(TORCH, None)
    if taken is not None:
        probe.emit(Span(name=f"import {TORCH}", duration_s=taken, category="import"))


def _install(patches: Patches) -> None:
    patches.wrap(START, _around_start)
    patches.wrap(END, _around_end)


HOOK = Hook(
    NAME, (Part(TORCH, _install_torch), Part("torch._dynamo.utils", _install)), (START, END), proof=(Span,)
)
