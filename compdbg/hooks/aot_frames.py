"""Frames compiled ahead of time: `torch.compile(f).aot_compile(...)`, as vLLM compiles its models.

Dynamo captures such a frame without its usual round of conversion: it begins where the capture
begins, and has been compiled when the function that the caller gets is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from compdbg import probe
from compdbg.events import FrameEnd, FrameStart
from compdbg.hooks import breaks, compiling, failures, userline
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.current import compile_id
from compdbg.hooks.frame_calls import tallies_of
from compdbg.hooks.requests import request_of
from compdbg.hooks.transformed import record_code

NAME = "aot_frames"
CAPTURE = Target("torch._dynamo.convert_frame:_fullgraph_capture_frame", ("frame",), "2.13-2.14.1", True)
MADE = Target("torch._dynamo.aot_compile:AOTCompiledFunction.__post_init__", (), "2.13-2.14.1", True)
METRICS = Target("torch._dynamo.metrics_context:MetricsContext.__exit__", ("exc_value",))

_ABOVE = 8
"""`aot_compile` stands at most so many frames above the capture."""


def _around_capture(original: Callable[..., Any]) -> Callable[..., Any]:
    def _fullgraph_capture_frame(frame: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.active():
            with contained(NAME):
                _begin(frame.code, sys._getframe(1))
        return original(frame, *args, **kwargs)

    return _fullgraph_capture_frame


def _begin(code: Any, caller: FrameType) -> None:
    asked = _caller(caller, "aot_compile")
    if _caller(caller, "aot_compile_fullgraph") is None:
        return
    compiling.keep_outermost(0)
    wrapper = getattr(asked.f_locals.get("self"), "callback", None) if asked else None
    record = compiling.Compiling(code, compile_id() or "", request_of(wrapper))
    own = userline.is_user_file(code.co_filename)
    probe.emit(
        FrameStart(
            frame=record.frame,
            compile_id=record.compile_id,
            where=userline.of_code(code) if own else userline.of_caller() or userline.of_code(code),
            request=record.request,
        )
    )
    compiling.push(record)


def _caller(frame: FrameType | None, function: str) -> FrameType | None:
    """The nearest caller of that name; a program may have functions of the same names further out."""
    for _ in range(_ABOVE):
        if frame is None or frame.f_code.co_name == function:
            return frame
        frame = frame.f_back
    return None


def _around_made(original: Callable[..., Any]) -> Callable[..., Any]:
    def __post_init__(self: Any) -> None:
        original(self)
        if probe.active():
            with contained(NAME):
                code = self._artifacts.original_code
                record = compiling.close(code)
                if record is not None:
                    record_code(record, self.fn.__code__)
                    _end(record, "compiled")
                    _not_called_yet(code)

    return __post_init__


def _not_called_yet(code: CodeType) -> None:
    """A tally counts the compile as the first call; compiled ahead of time, nothing was called."""
    tallies = tallies_of(code)
    if tallies and tallies[-1].reach == 1:
        tallies[-1].reach = 0


def _around_metrics(original: Callable[..., Any]) -> Callable[..., Any]:
    """The compile's metrics end with it; an exception that is on its way out then is its failure."""

    def __exit__(self: Any, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        if isinstance(exc_value, Exception) and self._level == 1 and probe.active():
            with contained(NAME):
                _failed(exc_value, sys._getframe(1))
        return original(self, exc_type, exc_value, traceback)

    return __exit__


def _failed(error: Exception, caller: FrameType) -> None:
    record = compiling.top()
    if record is None or caller.f_code.co_name != "aot_compile_fullgraph":
        return
    if breaks.is_break(error):
        if not getattr(error, "logged", False):
            breaks.record_break(record, error, str(error), fatal=True, code=record.code)
        reason = breaks.first_line(error)
    elif _runs_as_it_is(caller):
        compiling.close(record.code)
        _end(record, "eager", "its graph holds no operation")
        return
    else:
        failures.record_failure(record, error, one_graph=True)
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    compiling.close(record.code)
    _end(record, "failed", reason[:500])


def _runs_as_it_is(caller: FrameType) -> bool:
    """Whether there is no graph to compile: torch raises then, and the built-in compiler compiles nothing."""
    if caller.f_locals.get("backend_input", caller) is not None:
        return False
    tracing = _caller(caller, "_trace")
    return tracing is not None and tracing.f_globals.get("__name__") == "compdbg.compiler.wrapper"


def _end(record: compiling.Compiling, result: str, reason: str = "") -> None:
    probe.emit(
        FrameEnd(
            frame=record.frame,
            compile_id=record.compile_id,
            result=result,
            reason=reason,
            duration_ms=round(record.ms(), 3),
            request=record.request,
        )
    )


def _install_capture(patches: Patches) -> None:
    patches.wrap(CAPTURE, _around_capture)


def _install_made(patches: Patches) -> None:
    patches.wrap(MADE, _around_made)


def _install_metrics(patches: Patches) -> None:
    patches.wrap(METRICS, _around_metrics)


HOOK = Hook(
    NAME,
    (
        Part("torch._dynamo.convert_frame", _install_capture),
        Part("torch._dynamo.aot_compile", _install_made),
        Part("torch._dynamo.metrics_context", _install_metrics),
    ),
    (CAPTURE, MADE, METRICS),
)
