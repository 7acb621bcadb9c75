"""What kind of operator a node calls: one that rounds, decides, or talks to other ranks.

It is told by the operator's own name, not by the names of what it is given, and by the dtype it converts to.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_ROUNDS = (
    "round",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "int8",
    "float8",
    "fp8",
    "quant",
    "argm",
    "topk",
    "sort",
)
_TO_INTEGERS = frozenset(("int", "long", "short", "char", "byte", "bool"))
_DECIDES = ("unique", "nonzero", "multinomial", "bucketize", "searchsorted", "isclose")
_COMPARES = frozenset(
    (
        "gt", "lt", "ge", "le", "eq", "ne", "greater", "less", "greater_equal", "less_equal", "not_equal",
        "mod", "fmod", "remainder", "heaviside", "frac",
    )
)  # fmt: skip
_TALKS = ("allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "barrier")
_TALK_WORDS = frozenset(("send", "recv", "isend", "irecv"))
_TORCHS = ("aten", "prims", "prim", "inductor", "quantized")


def nodes_of(module: Any) -> Iterator[Any]:
    """The calls of a graph, and of those inside it: branches, loops."""
    graph_module = sys.modules["torch"].fx.GraphModule
    for each in module.modules():
        if isinstance(each, graph_module):
            yield from (node for node in each.graph.nodes if node.op.startswith("call"))


def rounds(node: Any) -> bool:
    """Turns the last bit of an input into a whole step: a few steps are no fault."""
    name = op_name(node)
    if name in _TO_INTEGERS or any(word in name for word in _ROUNDS):
        return True
    return any(map(_is_coarse, (*node.args, *node.kwargs.values())))


def decides(node: Any) -> bool:
    """Turns the last bit of an input into another result altogether."""
    name = op_name(node)
    return name in _COMPARES or any(word in name for word in _DECIDES)


def talks(node: Any) -> bool:
    """Waits for other ranks: no method of a tensor does, nor what torch has outside `torch.distributed`."""
    if node.op != "call_function" or _is_torchs(node.target):
        return False
    name = op_name(node)
    joined = name.replace("_", "")
    return any(word in joined for word in _TALKS) or not _TALK_WORDS.isdisjoint(name.split("_"))


def dtypes_of(node: Any) -> Iterator[Any]:
    """The dtypes that a call says or gives, as far as the graph knows."""
    torch = sys.modules["torch"]
    given = node.meta.get("example_value", node.meta.get("val"))
    for value in given if isinstance(given, (list, tuple)) else [given]:
        if isinstance(value, torch.Tensor):
            yield value.dtype
    yield from (v for v in (*node.args, *node.kwargs.values()) if isinstance(v, torch.dtype))
    if node.op == "call_method" and node.target in ("bfloat16", "half"):
        yield torch.bfloat16 if node.target == "bfloat16" else torch.float16


def op_name(node: Any) -> str:
    """`add` of `x.add_(1)` and of `aten.add.Tensor`, `iadd` of `operator.iadd`, in small letters."""
    target = node.target
    name = target if isinstance(target, str) else _qualified(target) or getattr(target, "__name__", "")
    return str(name).rpartition("::")[2].strip("_").lower()


def _qualified(target: Any) -> str:
    """`ns::op` of an operator, whether an overload of it is meant or all; "" of a function."""
    schema = getattr(target, "_schema", None)
    return str(getattr(target, "_qualified_op_name", "") if schema is None else schema.name)


def _is_torchs(target: Any) -> bool:
    qualified = _qualified(target)
    if qualified:
        return qualified.partition("::")[0] in _TORCHS
    module = str(getattr(target, "__module__", None) or "torch")  # functions in C have none
    return module.partition(".")[0] in ("torch", "_operator") and "distributed" not in module


def _is_coarse(value: Any) -> bool:
    if not isinstance(value, sys.modules["torch"].dtype):
        return False
    return value.itemsize == 1 or not (value.is_floating_point or value.is_complex)
