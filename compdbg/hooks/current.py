"""What is being compiled on this thread right now: its compile id, its frame, its graph."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compdbg.probe import compiling_graph, graph_under_way

__all__ = [
    "compile_id",
    "compiling_for",
    "compiling_graph",
    "frame_key",
    "graph_base",
    "graph_name",
    "plain_id",
]

_here = threading.local()


def compile_id() -> str | None:
    """Dynamo's id of the compile under way, such as `0/1`, without the attempt; None outside one."""
    guards = sys.modules.get("torch._guards")
    if guards is None:
        return None
    current = guards.CompileContext.current_compile_id()
    if current is not None:
        return plain_id(current)
    adopted: list[str] = _here.__dict__.get("compile_ids", [])
    return adopted[-1] if adopted else None


def plain_id(compile_id: Any) -> str:
    """`0/1` from torch's CompileId or its text, less `_attempt` and the `!autograd/` prefix's mark."""
    return str(compile_id).split("_")[0]


def frame_key(code: Any) -> str:
    """`FILE:FIRSTLINE:NAME` of a code object: what events call a frame."""
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"


@contextmanager
def compiling_for(compile_id: str | None) -> Iterator[None]:
    """Work of the compile `compile_id` that torch does outside its context, as AOT compilation does."""
    if compile_id is None:
        yield
        return
    ids: list[str] = _here.__dict__.setdefault("compile_ids", [])
    ids.append(compile_id)
    try:
        yield
    finally:
        ids.pop()


def graph_base() -> str:
    """The graph under way without its stage: `0/0` for `0/0`, `0/0 joint` and `0/0 backward`."""
    return graph_name().removesuffix(" joint").removesuffix(" backward")


def graph_name() -> str:
    """The graph that passes are working on: `0/0`, `0/0 backward`, a piece's name; `?` outside one."""
    return graph_under_way() or compile_id() or "?"
