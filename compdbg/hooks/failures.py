"""A compile that raised, as an event: the stage, the op, the user's line and the innermost cause."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import CompileError, Where
from compdbg.hooks import userline
from compdbg.hooks.compiling import Compiling
from compdbg.hooks.current import plain_id
from compdbg.hooks.requested import backend_name

_FAKE_RUN = re.compile(r"call_(?:function|method|module) (.+?)\(\*")
_GOT = re.compile(r"got (?P<type>\w+)\([\"'](?P<text>.*?)[\"']\)(?:\n|$)", re.DOTALL)
_STAGES = (
    ("torch/_inductor/", "inductor"),
    ("torch/_functorch/", "aot"),
    ("torch/fx/experimental/proxy_tensor", "aot"),
)
_TRACING = ("_dynamo/convert_frame.py", "_dynamo/symbolic_convert.py")


class _Node(NamedTuple):
    op: str
    where: Where | None


def record_failure(record: Compiling, error: Exception, *, one_graph: bool) -> None:
    """Emit what a compile died of, before torch rewraps it for the caller."""
    config = sys.modules["torch._dynamo.config"]
    suppressed = bool(config.suppress_errors) and not one_graph
    _emit(error, record.frame, record.compile_id, record.request, suppressed=suppressed, direction="forward")


def record_backward_failure(metrics: dict[str, Any], error: BaseException) -> None:
    """Emit a failed compile of a backward graph; forward ones are recorded where they raise."""
    guards = sys.modules.get("torch._guards")
    compile_id = None if guards is None else guards.CompileContext.current_compile_id()
    if metrics.get("is_forward") is not False or not isinstance(error, Exception):
        return
    _emit(
        error,
        "",
        "" if compile_id is None else plain_id(compile_id),
        "",
        suppressed=False,
        direction="backward",
    )


def _emit(
    error: Exception, frame: str, compile_id: str, request: str, *, suppressed: bool, direction: str
) -> None:
    inner = getattr(error, "inner_exception", None) or error
    node = _node_of(inner)
    root = root_of(error)
    pattern = _pattern_of(inner)
    backend = getattr(error, "backend_name", None)
    probe.emit(
        CompileError(
            frame=frame,
            compile_id=compile_id,
            stage=_stage(error, inner),
            error=type(error).__name__,
            message=str(error)[:4000],
            root_error=type(root).__name__,
            root_message=str(root).partition("\n\nWhile executing ")[0][:2000],
            op=_op(error, node) if pattern is None else None,
            where=_where(error, inner, node),
            suppressed=suppressed,
            traceback="".join(traceback.format_exception(error))[-6000:],
            backend=None if backend is None else backend_name(backend),
            direction=direction,
            request=request,
            graph=_piece(error, compile_id),
            pattern=pattern,
        )
    )


def _piece(error: BaseException, compile_id: str) -> str | None:
    """Where a backend compiles several graphs for one frame, the one that it failed at."""
    graph = probe.graph_that_failed(_chain(error))
    plain = (None, "?", compile_id, f"{compile_id} joint", f"{compile_id} backward")
    return None if graph in plain else graph


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it wraps or was raised from."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__, getattr(each, "inner_exception", None)]


def root_of(error: BaseException) -> BaseException:
    """The innermost cause. What was merely being handled counts only where torch wraps it."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        wrapped = getattr(error, "inner_exception", None)
        by_torch = type(error).__module__.startswith("torch.")
        deeper = error.__cause__ or wrapped or (error.__context__ if by_torch else None)
        if not isinstance(deeper, BaseException):
            break
        error = deeper
    return error


def _stage(error: BaseException, inner: BaseException) -> str:
    """Where it was raised. What Dynamo was tracing may itself run AOT code: that is Dynamo's stage."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if "InductorError" in names:
        return "inductor"
    passed = _files(inner)
    if "BackendCompilerFailed" not in names and any(f.endswith(_TRACING) for f in passed):
        return "dynamo"
    return next((stage for part, stage in _STAGES if any(part in f for f in passed)), "backend")


def _files(error: BaseException) -> list[str]:
    """The files that the error passed through, outermost first."""
    files: list[str] = []
    step = error.__traceback__
    while step is not None:
        files.append(step.tb_frame.f_code.co_filename)
        step = step.tb_next
    return files


def _node_of(error: BaseException) -> _Node | None:
    """The FX node that torch was working on: the innermost local of that kind in torch's frames."""
    torch = sys.modules["torch"]
    found: Any = None
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        if userline.is_torch_file(frame.f_code.co_filename):
            for name in ("n", "node"):
                value = frame.f_locals.get(name)
                if isinstance(value, torch.fx.Node) and value.op.startswith("call_"):
                    found = value
        step = step.tb_next
    return None if found is None else _Node(_target(found.target), userline.of_node(found))


def _pattern_of(error: BaseException) -> str | None:
    """The pattern that was traced for the nodes it had matched: then none of the graph's own ops raised."""
    step, found = error.__traceback__, None
    while step is not None:
        frame = step.tb_frame
        if frame.f_code.co_filename.endswith("torch/_inductor/pattern_matcher.py"):
            function = frame.f_locals.get("search_fn")
            found = getattr(function, "__name__", found)
        step = step.tb_next
    return found


def _target(target: Any) -> str:
    name = str(target)
    return str(getattr(target, "__name__", name)) if name.startswith("<") else name


def _op(error: BaseException, node: _Node | None) -> str | None:
    if node is not None:
        return node.op
    found = _FAKE_RUN.search(str(error))
    return found[1] if found else None


def _where(error: BaseException, inner: BaseException, node: _Node | None) -> Where | None:
    """The model's line: of the trace, else of the node, else of the user's code that raised."""
    traced = userline.of_frames(getattr(error, "real_stack", None) or ())
    if traced is None and node is not None:
        traced = node.where
    if traced is None:
        traced = userline.of_frames(traceback.extract_tb(inner.__traceback__))
    if traced is None or not userline.is_user_file(traced.file):
        called = userline.of_caller()
        traced = called if called is not None and userline.is_user_file(called.file) else traced
    return traced
