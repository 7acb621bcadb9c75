"""Which inputs a graph writes to, in place or through a view."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from compdbg.compiler.borders import memory_of, value_of

_IN_PLACE = frozenset(
    function
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor")
    if (function := getattr(operator, name))
) | {operator.setitem}


def written_inputs(graph: fx.Graph) -> frozenset[str]:
    """Names of the inputs whose memory the graph changes."""
    written = {memory_of(value_of(node)) for writer in graph.nodes for node in _written_by(writer)} - {None}
    inputs = graph.find_nodes(op="placeholder")
    return frozenset(node.name for node in inputs if memory_of(value_of(node)) in written)


def _written_by(node: fx.Node) -> Iterator[fx.Node]:
    for value in _written_arguments(node):
        items = value if isinstance(value, (list, tuple)) else [value]
        yield from (item for item in items if isinstance(item, fx.Node))


def _written_arguments(node: fx.Node) -> Iterator[Any]:
    target = node.target
    if node.op == "call_method":
        name = str(target)
        if (name.endswith("_") and not name.endswith("__")) or name == "__setitem__":
            yield node.args[0]
    elif node.op == "call_function":
        schema = _schema(target)
        if schema is not None:
            for position, argument in enumerate(schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    given = node.kwargs.get(argument.name)
                    yield node.args[position] if position < len(node.args) else given
        elif target in _IN_PLACE or (_name(target).endswith("_") and not _name(target).endswith("__")):
            yield node.args[0]
        yield node.kwargs.get("out")


def _schema(target: Any) -> Any:
    if isinstance(target, torch._ops.OpOverloadPacket):
        overloads = target.overloads()
        target = getattr(target, overloads[0]) if len(overloads) == 1 else None
    return target._schema if isinstance(target, torch._ops.OpOverload) else None


def _name(target: Any) -> str:
    return str(getattr(target, "__name__", ""))
