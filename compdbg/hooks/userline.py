"""From torch's stacks to the user's line: the innermost frame outside torch, vLLM and site-packages."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from compdbg.events import Where
from compdbg.hooks.userfiles import OURS, STDLIB, is_the_users

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$', re.MULTILINE)

is_user_file = functools.lru_cache(maxsize=4096)(is_the_users)


@functools.lru_cache(maxsize=4096)
def is_torch_file(name: str) -> bool:
    torch = sys.modules.get("torch")
    home = str(getattr(torch, "__file__", "") or "/nonexistent").rsplit("/", 1)[0] + "/"
    return name.startswith((home, OURS)) or name.startswith("<frozen")


def is_our_file(name: str) -> bool:
    return name.startswith(OURS)


def is_stdlib_file(name: str) -> bool:
    """A file of Python's own library, but not of what is installed beside it."""
    return name.startswith(STDLIB) and "site-packages" not in name and "dist-packages" not in name


def _is_plumbing(name: str) -> bool:
    return is_torch_file(name) or name.startswith(STDLIB)


def of_frames(frames: Iterable[Any]) -> Where | None:
    """The user's line in a stack of FrameSummary, outermost first; else the innermost outside torch."""
    second_best: Any = None
    for frame in reversed(list(frames)):
        name = frame.filename
        if is_user_file(name):
            return Where(name, frame.lineno or 0, frame.name)
        if second_best is None and not _is_plumbing(name):
            second_best = frame
    if second_best is None:
        return None
    return Where(second_best.filename, second_best.lineno or 0, second_best.name)


def of_caller(depth: int = 1) -> Where | None:
    """The user's line in the stack of who called us."""
    second_best: Where | None = None
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        name = frame.f_code.co_filename
        where = Where(name, frame.f_lineno, frame.f_code.co_name)
        if is_user_file(name):
            return where
        if second_best is None and not _is_plumbing(name):
            second_best = where
        frame = frame.f_back
    return second_best


def of_node(node: Any) -> Where | None:
    """The user's line of an FX node, from its `stack_trace`."""
    text = node.meta.get("stack_trace") or ""
    return of_text(text)


def of_text(text: str) -> Where | None:
    """The user's line in the text of a stack, outermost first."""
    second_best: Where | None = None
    for found in reversed(list(_FRAME.finditer(text))):
        where = Where(found["file"], int(found["line"]), found["function"])
        if is_user_file(where.file):
            return where
        if second_best is None and not is_torch_file(where.file):
            second_best = where
    return second_best


def of_code(code: Any) -> Where:
    """Where a function is defined."""
    return Where(code.co_filename, code.co_firstlineno, code.co_name)
