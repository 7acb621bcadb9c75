"""Dynamo's frames: start, end, why they were compiled again, and where their graphs broke.

All targets are functions that Dynamo calls on its way and that return; none stands between an
exception and who catches it. What they are not given is read from their caller's frame.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from compdbg import probe
from compdbg.events import FrameEnd, FrameStart, GraphBreak, Where
from compdbg.hooks import breaks, compiling, failures, recompiling, userline
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.current import compile_id, frame_key
from compdbg.hooks.requests import is_target, request_of
from compdbg.hooks.tracebacks import hide_our_frames
from compdbg.hooks.transformed import record_code

CONVERT = "torch._dynamo.convert_frame"
START = Target(f"{CONVERT}:log_dynamo_start", ("code", "skip"))
DONE = Target(f"{CONVERT}:put_code_state")
FAILED = Target(f"{CONVERT}:exception_handler", ("e", "code"))
LIMIT = Target(f"{CONVERT}:exceeds_recompile_limit", ("cache_size", "compile_id"))
SKIPPED = Target(f"{CONVERT}:CatchErrorsWrapper._handle_skip", ("result", "frame"), "2.13-2.14.1", True)
GENERATOR = Target(f"{CONVERT}:is_generator", ("code",))
BREAK = Target("torch._dynamo.symbolic_convert:InstructionTranslatorBase.log_graph_break", ("reason", "exc"))
METRICS = Target("torch._dynamo.metrics_context:MetricsContext.__exit__", ("exc_value",))

_CHOSE_TO_SKIP = "Dynamo decided to skip the frame while tracing: "
_TRIED = (
    _CHOSE_TO_SKIP,
    "compilation failed with a custom frame execution strategy",
    "an error was suppressed during compilation",
)


def _install_convert_frame(patches: Patches) -> None:
    patches.wrap(START, _on_start)
    patches.wrap(DONE, _on_done)
    patches.wrap(FAILED, _on_failure)
    patches.wrap(LIMIT, recompiling.on_limit)
    patches.wrap(SKIPPED, _on_skip)
    patches.wrap(GENERATOR, _on_generator)


def _on_start(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_dynamo_start(code: CodeType, skip: int = 0) -> Any:
        if probe.active():
            with contained("dynamo"):
                _start(code, sys._getframe(1))
        return original(code, skip + 1)

    return log_dynamo_start


def _start(code: CodeType, compile_frame: FrameType) -> None:
    depth, wrapper = compiling.converters(compile_frame)
    compiling.keep_outermost(depth - 1)
    record = compiling.Compiling(code, compile_id() or "", request_of(wrapper))
    with contained("dynamo"):
        recompiling.record_reasons(record.frame, record.compile_id, compile_frame.f_locals)
    resume_of = breaks.resumed_code(code)
    probe.emit(
        FrameStart(
            frame=record.frame,
            compile_id=record.compile_id,
            where=_where(code),
            resume_of=None if resume_of is None else frame_key(resume_of),
            request=record.request,
            name=breaks.qualname(code),
            call=recompiling.this_call(code) or (1 if record.compile_id.endswith("/0") else None),
            limit=recompiling.limit(),
        )
    )
    compiling.push(record)


def _where(code: CodeType) -> Where | None:
    """The definition of a user's function; for library code the user's line that called into it."""
    if userline.is_user_file(code.co_filename):
        return Where(code.co_filename, code.co_firstlineno, breaks.plain_name(code.co_name))
    return userline.of_caller() or userline.of_code(code)


def _on_done(original: Callable[..., Any]) -> Callable[..., Any]:
    def put_code_state(*args: Any, **kwargs: Any) -> Any:
        if probe.active():
            with contained("dynamo"):
                _done(sys._getframe(1).f_locals)
        return original(*args, **kwargs)

    return put_code_state


def _done(said: dict[str, Any]) -> None:
    """In `_compile`, after it returned: with code, or without where Dynamo chose to skip the frame."""
    record = compiling.close(said.get("code"))
    returned = said.get("guarded_code")
    if record is None or returned is None:
        return
    if getattr(returned, "guarded_code", returned) is None:
        reason = str(getattr(returned, "skip_reason", None) or "Dynamo skipped the frame")
        _end(record, "skipped", reason.removeprefix(_CHOSE_TO_SKIP).partition("\n")[0])
        return
    graph = getattr(said.get("tracer_output"), "output_graph", None)
    ops = None if graph is None else int(graph.count_calls())
    _end(record, "compiled", "no operation in its graph" if ops == 0 else "", ops)
    with contained("dynamo"):
        record_code(record, getattr(returned, "guarded_code", returned).code)


def _on_failure(original: Callable[..., Any]) -> Callable[..., Any]:
    def exception_handler(e: Exception, code: CodeType, *args: Any, **kwargs: Any) -> Any:
        if probe.active():
            with contained("dynamo"):
                _failed(e, code, sys._getframe(1).f_locals)
        hide_our_frames(e)
        return original(e, code, *args, **kwargs)

    return exception_handler


def _failed(error: Exception, code: CodeType, said: dict[str, Any]) -> None:
    record = compiling.top()
    if record is None or record.code is not code:
        return
    one_graph = bool(said.get("one_graph"))
    if breaks.is_break(error):
        fatal = one_graph or breaks.must_raise(error)
        if not getattr(error, "logged", False):
            breaks.record_break(record, error, str(error), fatal=fatal, code=code)
        result, reason = "failed" if fatal else "skipped", breaks.first_line(error)
    else:
        failures.record_failure(record, error, one_graph=one_graph)
        result, reason = "failed", f"{type(error).__name__}: {error}".partition("\n")[0]
    compiling.close(code)
    _end(record, result, reason[:500])


def _on_skip(original: Callable[..., Any]) -> Callable[..., Any]:
    def _handle_skip(self: Any, result: Any, frame: Any) -> Any:
        if result.guarded_code is None and probe.active():
            with contained("dynamo"):
                _skipped(self, str(result.skip_reason or ""), frame.f_code)
        return original(self, result, frame)

    return _handle_skip


def _skipped(wrapper: Any, reason: str, code: CodeType) -> None:
    """A frame that torch does not even try; of others, the end has been recorded."""
    request, frame = request_of(wrapper), frame_key(code)
    asked_for = is_target(request, frame) or code.co_filename.endswith("_dynamo/external_utils.py")
    if reason.startswith(_TRIED) or not (asked_for or userline.is_user_file(code.co_filename)):
        return
    reason = reason.partition("\n")[0]
    probe.emit(FrameEnd(frame=frame, compile_id="", result="skipped", reason=reason, request=request))


def _on_generator(original: Callable[..., bool]) -> Callable[..., bool]:
    def is_generator(code: CodeType) -> bool:
        answer = original(code)
        if answer and probe.active():
            with contained("dynamo"):
                breaks.record_generator(code, sys._getframe(1))
        return answer

    return is_generator


def _end(record: compiling.Compiling, result: str, reason: str = "", ops: int | None = None) -> None:
    probe.emit(
        FrameEnd(
            frame=record.frame,
            compile_id=record.compile_id,
            result=result,
            reason=reason,
            duration_ms=round(record.ms(), 3),
            graph_ops=ops,
            request=record.request,
        )
    )


def _install_symbolic_convert(patches: Patches) -> None:
    def observe(original: Callable[..., Any]) -> Callable[..., Any]:
        def log_graph_break(self: Any, code_options: Any, reason: str, exc: Any) -> Any:
            if probe.active() and not getattr(exc, "logged", False):
                with contained("dynamo"):
                    breaks.record_break(compiling.top(), exc, str(reason), fatal=False, code=self.f_code)
            return original(self, code_options, reason, exc)

        return log_graph_break

    patches.wrap(BREAK, observe)


def _install_metrics(patches: Patches) -> None:
    """A backward graph is compiled outside any frame; its failure shows where its metrics end."""

    def observe(original: Callable[..., Any]) -> Callable[..., Any]:
        def __exit__(self: Any, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
            if exc_value is not None and self._level == 1 and probe.active():
                with contained("dynamo"):
                    failures.record_backward_failure(self._metrics, exc_value)
                hide_our_frames(exc_value)
            return original(self, exc_type, exc_value, traceback)

        return __exit__

    patches.wrap(METRICS, observe)


HOOK = Hook(
    "dynamo",
    (
        Part("torch._dynamo.metrics_context", _install_metrics),
        Part("torch._dynamo.convert_frame", _install_convert_frame),
        Part("torch._dynamo.symbolic_convert", _install_symbolic_convert),
    ),
    (START, DONE, FAILED, LIMIT, SKIPPED, GENERATOR, BREAK, METRICS),
    proof=(FrameEnd, GraphBreak),
)
