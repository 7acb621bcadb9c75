"""What a CUDA graph can't hold, and how it is seen: by watching on the CPU, by CUDA's error on the GPU."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from msgspec import Struct
from torch.utils._python_dispatch import TorchDispatchMode

from compdbg.compiler.replay_watch import OperatorNotes
from compdbg.events import Where

aten = torch.ops.aten

_SYNCHRONISING: dict[Any, str] = {
    aten._local_scalar_dense.default: "reads a value back to the host (.item(), int(), a branch on a tensor)",
    aten.item.default: "reads a value back to the host",
    aten.is_nonzero.default: "reads a value back to the host (a branch on a tensor)",
    aten.equal.default: "reads the comparison back to the host",
    aten.nonzero.default: "has a result whose size depends on the data",
    aten.masked_select.default: "has a result whose size depends on the data",
    aten.unique_consecutive.default: "has a result whose size depends on the data",
    aten._unique2.default: "has a result whose size depends on the data",
    aten.unique_dim.default: "has a result whose size depends on the data",
    aten.bincount.default: "has a result whose size depends on the data",
}
_TORCHS_OWN = ("aten", "prim", "prims", "inductor", "higher_order")
_TEXTS: tuple[tuple[str, str], ...] = (
    (r"compil", "compile-inside"),
    (r"nccl|collective|process ?group", "collective"),
    (r"out of memory|alloc", "alloc"),
    (r"thread", "other-thread"),
    (r"legacy stream|synchroni[sz]|\.item\(|cudaErrorStreamCaptureImplicit", "sync"),
)
_ADVICE = "CUDA kernel errors might"
"""From here on torch tells of every CUDA error alike how to debug it, by compiling torch anew too."""
_NOT_THE_PROGRAM = ("<", str(Path(torch.__file__).parent), str(Path(__file__).parent), contextlib.__file__)

_INSTALLED = ("site-packages", "dist-packages", str(Path(contextlib.__file__).parent))


class Fault(Struct, frozen=True, kw_only=True):
    """The first thing that a capture can't hold. `kind` is `data.kind` of the finding."""

    kind: str
    message: str
    op: str = ""
    stack: tuple[Where, ...] = ()
    """The program's own frames, outermost first."""
    thread: str = ""

    @property
    def where(self) -> Where | None:
        return _innermost(self.stack)


@contextlib.contextmanager
def watching(operations: bool = True, notes: OperatorNotes | None = None) -> Iterator[list[Fault]]:
    """Collects what the block does that a CUDA graph can't hold; nothing is stopped by it."""
    faults: list[Fault] = []
    watch: Any = _Watch(faults, notes) if operations else contextlib.nullcontext()
    with _no_compiles(faults), watch:
        yield faults


_READS_CONDITION = ("cond", "while_loop")


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    """Sees the operators of a recorded call on the CPU, where nothing would fail by itself."""

    supports_higher_order_operators = True

    def __init__(self, faults: list[Fault], notes: OperatorNotes | None = None) -> None:
        super().__init__()
        self._faults = faults
        self._notes = notes

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled functions be compiled and run as without us: else a compile goes unseen."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, torch._ops.HigherOrderOperator):
            if func.name() in _READS_CONDITION:
                message = f"{func.name()} reads its condition back to the host"
                self._faults.append(_fault("sync", message, op=func.name()))
            return func(*args, **(kwargs or {}))
        why = _SYNCHRONISING.get(func)
        if why is None and func in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default):
            why = _indexes_by_mask(args[1])
        if why is not None:
            self._faults.append(_fault("sync", f"{func} {why}", op=str(func)))
        if self._notes is None:
            return self._run(func, args, kwargs)
        self._notes.before(func, args, kwargs)
        result = self._run(func, args, kwargs)
        self._notes.made(result)
        return result

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator, with the watch on for what one of the program's own calls itself."""
        below = None if func.namespace in _TORCHS_OWN else _backend_of(func, args)
        if below is None:
            return func(*args, **(kwargs or {}))
        if self._notes is not None:
            self._notes.enter(args, kwargs)
        try:
            with self:
                return func.redispatch(below, *args, **(kwargs or {}))
        finally:
            if self._notes is not None:
                self._notes.leave()


@contextlib.contextmanager
def noting(notes: OperatorNotes) -> Iterator[None]:
    """The operators of the block are noted, and nothing else."""
    with _Watch([], notes):
        yield


def _backend_of(func: Any, args: Any) -> Any:
    """The keys to run an operator below the watch, with the watch on for what it calls itself."""
    tensor = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
    key = None if tensor is None else {"cpu": "CPU", "cuda": "CUDA"}.get(tensor.device.type)
    if key is None or not torch._C._dispatch_has_computed_kernel_for_dispatch_key(func.name(), key):
        return None
    return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))


def _indexes_by_mask(indices: Any) -> str | None:
    masks = (torch.bool, torch.uint8)
    by_mask = any(isinstance(i, torch.Tensor) and i.dtype in masks for i in indices)
    return "indexes by a mask: how many rows that are depends on the data" if by_mask else None


@contextlib.contextmanager
def _no_compiles(faults: list[Fault]) -> Iterator[None]:
    """A compile that starts on this thread is a fault: it allocates, loads and synchronises."""
    handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
    if handler is None:
        yield
        return
    mine = threading.get_ident()

    def compiling(*about: Any) -> None:
        if threading.get_ident() == mine:
            faults.append(_fault("compile-inside", "torch.compile compiles a function during the capture"))

    handler.register_start_callback(compiling)
    try:
        yield
    finally:
        handler.remove_start_callback(compiling)


def fault_of(error: BaseException) -> Fault:
    """The fault behind an exception that ended a capture, by the text of CUDA's error."""
    text = f"{type(error).__name__}: {error}".partition(_ADVICE)[0]
    kind = next((kind for pattern, kind in _TEXTS if re.search(pattern, text, re.IGNORECASE)), "op")
    frames = traceback.extract_tb(error.__traceback__)
    return Fault(
        kind=kind,
        message=text.partition("\n")[0][:500],
        op=_innermost_call(frames),
        stack=_program(frames),
        thread=threading.current_thread().name,
    )


def _fault(kind: str, message: str, op: str = "") -> Fault:
    stack = _program(traceback.extract_stack())
    return Fault(kind=kind, message=message, op=op, stack=stack, thread=threading.current_thread().name)


def _program(frames: Iterable[traceback.FrameSummary]) -> tuple[Where, ...]:
    """The frames of the program, without torch's, ours and generated code."""
    mine = (f for f in frames if not f.filename.startswith(_NOT_THE_PROGRAM))
    return tuple(Where(f.filename, f.lineno or 0, f.name) for f in mine)[-20:]


def callers_line() -> Where | None:
    """The program's line that this call comes from.

    Code that Dynamo made runs in frames that stand at their function's first line: they are no caller.
    """
    frame: FrameType | None = sys._getframe(1)
    frames: list[traceback.FrameSummary] = []
    while frame is not None:
        code = frame.f_code
        if frame.f_lineno != code.co_firstlineno or code.co_name == "<module>":
            frames.append(traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return _innermost(_program(frames[::-1]))


def _innermost(stack: Sequence[Where]) -> Where | None:
    """The innermost frame that is not an installed library's, if there is one."""
    own = (frame for frame in reversed(stack) if not any(part in frame.file for part in _INSTALLED))
    return next(own, stack[-1] if stack else None)


def _innermost_call(frames: traceback.StackSummary) -> str:
    return (frames[-1].line or "").strip()[:120] if frames else ""
