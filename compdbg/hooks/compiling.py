"""The compiles under way on this thread: what `dynamo` opens and closes, and `symbols` looks up."""

from __future__ import annotations

import threading
import time
from types import CodeType, FrameType
from typing import Any

from compdbg.hooks.current import frame_key


class Compiling:
    """One frame being compiled. Holds names and code, never a tensor or a module."""

    def __init__(self, code: CodeType, compile_id: str, request: str) -> None:
        self.code = code
        self.frame = frame_key(code)
        self.compile_id = compile_id
        self.request = request
        self.started = time.perf_counter()
        self.marks: dict[str, dict[int, str]] = {}
        """Source of a tensor -> its dimensions that the user marked, and how."""
        self.sources: dict[str, list[str]] = {}
        """Symbol -> the sizes that it stands for."""
        self.said: set[tuple[Any, ...]] = set()
        """What has been recorded of this compile: a restarted analysis says it all again."""

    def ms(self) -> float:
        return (time.perf_counter() - self.started) * 1e3

    def first_time(self, *what: Any) -> bool:
        """Whether this has not been recorded in this compile."""
        if what in self.said:
            return False
        self.said.add(what)
        return True


_here = threading.local()


def push(record: Compiling) -> None:
    _stack().append(record)


def top() -> Compiling | None:
    """The innermost compile under way on this thread."""
    stack = _stack()
    return stack[-1] if stack else None


def close(code: CodeType | None) -> Compiling | None:
    """Close the innermost compile if it is of `code`, with any that was left open inside it."""
    stack = _stack()
    for depth in range(len(stack) - 1, -1, -1):
        if stack[depth].code is code:
            found = stack[depth]
            del stack[depth:]
            return found
    return None


def converters(frame: FrameType | None) -> tuple[int, Any]:
    """How many compiles are under way on this stack, and the wrapper that converts the innermost."""
    depth, wrapper = 0, None
    while frame is not None:
        name = frame.f_code.co_name
        if name == "_compile" and frame.f_code.co_filename.endswith("convert_frame.py"):
            depth += 1
        elif name == "__call__" and wrapper is None and depth == 1:
            found = frame.f_locals.get("self")
            wrapper = found if type(found).__name__ == "CatchErrorsWrapper" else None
        frame = frame.f_back
    return max(depth, 1), wrapper


def keep_outermost(depth: int) -> None:
    """Drop all but `depth` records: those inside ended in a way that no hook shows."""
    del _stack()[depth:]


def _stack() -> list[Compiling]:
    stack: list[Compiling] = _here.__dict__.setdefault("stack", [])
    return stack
