"""Reads one `torch.compile` from the frames of its caller: what, where, and with which options."""

from __future__ import annotations

import inspect
import sys
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

from compdbg.events import Where
from compdbg.hooks import userline
from compdbg.hooks.current import frame_key

_NEAR = 8
"""`torch.compile` stands at most so many frames above the function that we observe."""


class Asked(NamedTuple):
    """What one request says. `options` is the caller's own object, for its identity only."""

    target: str
    code: str
    target_where: Where | None
    where: Where | None
    internal: bool
    backend: str
    mode: str | None
    fullgraph: bool
    dynamic: bool | None
    disable: bool
    has_filter: bool
    options: Any


def asked_of(optimize: FrameType) -> Asked | None:
    """What the `torch.compile` (or `torch._dynamo.optimize`) that runs in these frames was asked.

    Several hooks observe the same function of torch's, one around the other: their frames are passed over.
    """
    while userline.is_our_file(optimize.f_code.co_filename) and optimize.f_back is not None:
        optimize = optimize.f_back
    compile_frame, caller = _frames_of(optimize)
    if caller is None:
        return None
    said = optimize.f_locals
    model: Any = None
    mode = options = None
    if compile_frame is not None:
        asked = compile_frame.f_locals
        model, mode, options = asked.get("model"), asked.get("mode"), asked.get("options")
    target, code, target_where = describe(model)
    mode = None if mode in (None, "default") else str(mode)
    return Asked(
        target=target,
        code=code,
        target_where=target_where,
        where=userline.of_caller(),
        internal="/torch/" in caller.f_code.co_filename and userline.is_torch_file(caller.f_code.co_filename),
        backend=backend_name(said.get("backend")),
        mode=mode,
        fullgraph=bool(said.get("nopython")),
        dynamic=said.get("dynamic"),
        disable=bool(said.get("disable")),
        has_filter=said.get("guard_filter_fn") is not None,
        options=options,
    )


def _frames_of(optimize: FrameType) -> tuple[FrameType | None, FrameType | None]:
    """The frame of `torch.compile`, if it is one, and the first frame above torch's entry points."""
    compile_frame: FrameType | None = None
    frame = optimize.f_back
    for _ in range(_NEAR):
        if frame is None:
            break
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name == "rebuild_ctx":
            return None, None
        if name == "compile" and file.endswith("torch/__init__.py") and "model" in frame.f_locals:
            compile_frame = frame
        elif not _is_entry_point(name, file):
            break
        frame = frame.f_back
    return compile_frame, frame


def _is_entry_point(name: str, file: str) -> bool:
    return (
        (name == "optimize" and file.endswith("_dynamo/eval_frame.py"))
        or (name == "fn" and file.endswith("torch/__init__.py"))
        or (name == "compile" and file.endswith(("nn/modules/module.py", "torch/compiler/__init__.py")))
    )


def describe(model: Any) -> tuple[str, str, Where | None]:
    """Name, frame and place of what is to be compiled: a function, a module, a callable object."""
    owner = getattr(model, "__self__", None)
    if isinstance(model, MethodType) and getattr(model, "__name__", "") == "_call_impl":
        model = owner
    if isinstance(model, sys.modules["torch"].nn.Module):
        code, shown = _codes(model.forward)
        return type(model).__name__, _key(code), _place(shown)
    if isinstance(model, (FunctionType, MethodType)):
        code, shown = _codes(model)
        name = str(getattr(model, "__qualname__", model.__name__)).rpartition("<locals>.")[2]
        return name, _key(code), _place(shown)
    if model is None:
        return "?", "", None
    code, shown = _codes(inspect.getattr_static(type(model), "__call__", None))
    name = getattr(model, "__name__", None) or type(model).__name__
    return str(name), _key(code), _place(shown)


def backend_name(backend: Any) -> str:
    """`inductor`, `eager`, or the name of a custom backend's function."""
    if isinstance(backend, str):
        return backend
    named = getattr(backend, "compiler_name", None)
    if not isinstance(named, str) or named.startswith("<"):
        inner = getattr(backend, "compiler_fn", backend)
        named = getattr(inner, "__name__", None) or type(inner).__name__
    return "inductor" if "Inductor" in named else named


def _codes(function: Any) -> tuple[CodeType | None, CodeType | None]:
    """The code that Dynamo sees, and the one to show: what a decorator wraps."""
    function = getattr(function, "_torchdynamo_orig_callable", function)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    try:
        shown = getattr(inspect.unwrap(function), "__code__", code)
    except ValueError:
        shown = code
    return (code if isinstance(code, CodeType) else None), (shown if isinstance(shown, CodeType) else None)


def _key(code: CodeType | None) -> str:
    return "" if code is None else frame_key(code)


def _place(code: CodeType | None) -> Where | None:
    return None if code is None else userline.of_code(code)
