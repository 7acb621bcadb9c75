"""One graph break as an event: torch's words taken apart, and the user's line that caused it."""

from __future__ import annotations

import re
import sys
from types import CodeType, FrameType
from typing import Any

from compdbg import probe
from compdbg.events import FrameEnd, GraphBreak, Where
from compdbg.hooks import userline
from compdbg.hooks.compiling import Compiling
from compdbg.hooks.current import frame_key

_RESUME = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
_ANOTHER = "*** While handling this graph break"
_ERRORS_OF_THE_COMPILE = {"CONSTRAINT_VIOLATION", "DYNAMIC_DIM", "INVALID_INPUT", "INVALID_OUTPUT"}
_RECIPE = re.compile(
    r"intentionally marked that the function `(?:\S+` in file `\S*/torch/optim/|"
    r"(?:DistributedDataParallel|FullyShardedDataParallel)\.)"
)
"""What torch says to compile though it breaks there: an optimizer's step that a scheduler has wrapped,
a model wrapped for data parallelism. What is inside is compiled."""
_PARALLEL = "/torch/nn/parallel/"
_ON_PURPOSE = re.compile(r"_dynamo\.graph_break\(\)|torch\.compiler\.disable\(\)")


def plain_name(name: str) -> str:
    """`f` for `torch_dynamo_resume_in_f_at_12`, and for `f`."""
    found = _RESUME.match(name)
    return found[1] if found else name


def qualname(code: CodeType) -> str:
    """`Block.forward`, also for its resume functions; without the functions that it is defined in."""
    original = resumed_code(code) or code
    return original.co_qualname.rpartition("<locals>.")[2]


def resumed_code(code: CodeType) -> CodeType | None:
    """The function that a resume function goes on with; None for any other."""
    module = sys.modules.get("torch._dynamo.resume_execution")
    known = getattr(getattr(module, "ContinueExecutionCache", None), "generated_code_metadata", {})
    metadata = known.get(code) if code.co_name.startswith("torch_dynamo_resume_in") else None
    original = getattr(metadata, "code", None)
    return original if isinstance(original, CodeType) else None


def is_break(error: BaseException) -> bool:
    """Whether without `fullgraph` this would break the graph rather than end the compile."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if "UserError" in names and not _is_data_dependent(error):
        return getattr(getattr(error, "error_type", None), "name", "") not in _ERRORS_OF_THE_COMPILE
    return bool(names & {"Unsupported", "StepUnsupported", "UserError"})


def _is_data_dependent(error: BaseException) -> bool:
    """torch calls some guards on values a violated constraint; without `fullgraph` they break."""
    return "data-dependent expression" in str(getattr(error, "msg", None) or error)


def must_raise(error: BaseException) -> bool:
    """Whether `torch._dynamo.error_on_graph_break` is in force where this break occurred."""
    tracer = getattr(error, "_torch_dynamo_tracer_output", None)
    return bool(getattr(tracer, "error_on_graph_break", False))


def first_line(error: BaseException) -> str:
    return str(getattr(error, "msg", None) or error).partition("\n")[0]


def record_break(record: Compiling | None, error: Any, said: str, *, fatal: bool, code: CodeType) -> None:
    """Emit one break. `code` is the frame whose graph breaks; the cause may be deeper."""
    frames = list(getattr(error, "real_stack", None) or _stack_now())
    stack = [Where(f.filename, f.lineno or 0, plain_name(f.name)) for f in frames]
    text = str(getattr(error, "msg", None) or said).partition(_ANOTHER)[0]
    words = _words(text)
    function = _innermost_of_user([code, *_inlined(error)])
    event = GraphBreak(
        frame=frame_key(code) if record is None else record.frame,
        compile_id="" if record is None else record.compile_id,
        reason=words["reason"],
        explanation=words["explanation"],
        hint=words["hint"],
        gb_type=words["reason"] if words["explanation"] else type(error).__name__,
        where=_user_line(frames),
        stack=stack,
        fatal=fatal,
        function="" if function is None else frame_key(resumed_code(function) or function),
        function_name="" if function is None else qualname(function),
        by_torch=_by_torch(stack, words["reason"]) or bool(_RECIPE.search(words["explanation"])),
        request="" if record is None else record.request,
    )
    if record is None or record.first_time("break", event.where, event.reason, fatal):
        probe.emit(event)


def record_generator(code: CodeType, assert_frame: FrameType) -> None:
    """A generator that was itself asked to be compiled. Those called from eager code are no fault."""
    from compdbg.hooks.requests import is_target, request_of

    frame: FrameType | None = assert_frame
    request = ""
    while frame is not None and not request:
        found = frame.f_locals.get("self") if frame.f_code.co_name == "__call__" else None
        request = request_of(found) if type(found).__name__ == "CatchErrorsWrapper" else ""
        frame = frame.f_back
    if not is_target(request, frame_key(code)):
        return
    fatal = bool(getattr(assert_frame.f_locals.get("self"), "_one_graph", False))
    where, reason = userline.of_code(code), "Attempt to trace generator"
    probe.emit(
        GraphBreak(
            frame=frame_key(code),
            compile_id="",
            reason=reason,
            gb_type=reason,
            where=where,
            stack=[where],
            fatal=fatal,
            function=frame_key(code),
            function_name=qualname(code),
            request=request,
        )
    )
    result = "failed" if fatal else "skipped"
    probe.emit(FrameEnd(frame=frame_key(code), compile_id="", result=result, reason=reason, request=request))


def _words(text: str) -> dict[str, str]:
    """torch's message: its type, explanation and hints, as lines without their labels."""
    head, _, rest = text.partition("\n  Explanation: ")
    body = rest.partition("\n  Developer debug context:")[0]
    explanation, *hints = body.split("\n  Hint: ")
    return {
        "reason": head.strip().partition("\n")[0],
        "explanation": _one_line(explanation),
        "hint": " ".join(_one_line(hint) for hint in hints[:2]),
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())[:600]


def _stack_now() -> list[Any]:
    return list(sys.modules["torch._guards"].TracingContext.extract_stack())


def _user_line(frames: list[Any]) -> Where | None:
    """The innermost line of the user's that was traced, or the one that called into what was."""
    found = userline.of_frames(frames)
    if found is None or not userline.is_user_file(found.file):
        called = userline.of_caller()
        found = called if called is not None and userline.is_user_file(called.file) else found or called
    return None if found is None else Where(found.file, found.line, plain_name(found.function))


def _inlined(error: BaseException) -> list[CodeType]:
    """The functions being inlined when `error` was raised, outermost first.

    A break that torch could not resume from is raised anew (`graph break in loop`): the first one
    went deeper.
    """
    first = error.__context__
    deeper = _inlined(first) if first is not None and is_break(first) else []
    return [*_running(error), *deeper]


def _running(error: BaseException) -> list[CodeType]:
    codes = []
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        if frame.f_code.co_name == "run" and frame.f_code.co_filename.endswith("symbolic_convert.py"):
            code = getattr(frame.f_locals.get("self"), "f_code", None)
            if isinstance(code, CodeType):
                codes.append(code)
        step = step.tb_next
    return codes


def _innermost_of_user(codes: list[CodeType]) -> CodeType | None:
    return next((code for code in reversed(codes) if userline.is_user_file(code.co_filename)), None)


def _by_torch(stack: list[Where], reason: str) -> bool:
    if not stack or not userline.is_torch_file(stack[-1].file):
        return False
    return _PARALLEL in stack[-1].file or bool(_ON_PURPOSE.search(reason))
