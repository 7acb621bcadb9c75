"""What is making a size a number right now: the op, the node, the user's line, the other operands."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, NamedTuple

from compdbg.events import Where
from compdbg.hooks import userline

_DISPATCH = ("dispatch", "_dispatch_impl", "__torch_dispatch__")
_BACKEND = ("_call_user_compiler", "call_user_compiler")


class Specialised(NamedTuple):
    op: str | None
    node: str | None
    where: Where | None
    met: list[str]


def what_specialises(frame: FrameType | None, value: int | None, sources: list[str]) -> Specialised:
    """Read it from the stack above the hook: the nearest dispatch and the nearest FX node.

    `value` is None where a size became another's: then there are no operands of that size.
    """
    torch = sys.modules["torch"]
    op: str | None = None
    node: Any = None
    in_backend = False
    while frame is not None and not (op is not None and node is not None and in_backend):
        name = frame.f_code.co_name
        if op is None and name in _DISPATCH:
            func = frame.f_locals.get("func")
            op = None if func is None else str(func)
        if node is None and userline.is_torch_file(frame.f_code.co_filename):
            node = _node_in(frame, torch)
        if name in _BACKEND:
            in_backend = True
            break
        frame = frame.f_back
    where = userline.of_node(node) if in_backend and node is not None else None
    if where is None:
        where = userline.of_frames(sys.modules["torch._guards"].TracingContext.extract_stack())
    if where is None or not userline.is_user_file(where.file):
        called = userline.of_caller()
        where = called if called is not None and userline.is_user_file(called.file) else where
    return Specialised(
        op=op,
        node=None if node is None else str(node),
        where=where,
        met=[]
        if node is None or value is None
        else _operands_with(node, value, {s.partition(".size()")[0] for s in sources}),
    )


def _node_in(frame: FrameType, torch: Any) -> Any:
    for name in ("node", "n"):
        value = frame.f_locals.get(name)
        if isinstance(value, torch.fx.Node) and value.op.startswith("call_"):
            return value
    proxy = frame.f_locals.get("proxy")
    value = getattr(proxy, "node", None) if isinstance(proxy, torch.fx.Proxy) else None
    return value if isinstance(value, torch.fx.Node) and value.op.startswith("call_") else None


def _operands_with(node: Any, value: int, itself: set[str]) -> list[str]:
    """The operands that have `value` as a plain size, by the name of where they come from."""
    found = []
    for operand in node.all_input_nodes:
        example = operand.meta.get("example_value", operand.meta.get("val"))
        shape = getattr(example, "shape", None)
        if shape is not None and any(type(size) is int and size == value for size in shape):
            source = getattr(operand.meta.get("grapharg"), "source", None)
            name = getattr(source, "name", None)
            name = name() if callable(name) else name
            if name not in itself:
                found.append(f"{name or operand} ({', '.join(map(str, shape))})")
    return found
