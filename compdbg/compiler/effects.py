"""What the operators of a graph write to, in place or through a view.

Private names, seen in torch 2.11 to 2.14.1: `torch._higher_order_ops.triton_kernel_wrap`, of which
`triton_kernel_wrapper_mutation` is a call of a user's Triton kernel, and `get_mutated_tensors` reads it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from compdbg.compiler.borders import memory_of, value_of

_IN_PLACE = frozenset(
    function
    for name in (
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
        "iand",
        "ior",
        "ixor",
        "ilshift",
        "irshift",
    )
    if (function := getattr(operator, name))
) | {operator.setitem}


def written_inputs(graph: fx.Graph) -> frozenset[str]:
    """Names of the inputs whose memory the graph changes."""
    written = {memory_of(value_of(node)) for writer in graph.nodes for node in written_by(writer)} - {None}
    inputs = graph.find_nodes(op="placeholder")
    return frozenset(node.name for node in inputs if memory_of(value_of(node)) in written)


def written_by(node: fx.Node) -> Iterator[fx.Node]:
    """The nodes whose memory this call may write to."""
    for value in _written_arguments(node):
        items = value if isinstance(value, (list, tuple)) else [value]
        yield from (item for item in items if isinstance(item, fx.Node))


def _written_arguments(node: fx.Node) -> Iterator[Any]:
    target = node.target
    if node.op == "call_method":
        if _ends_in_place(str(target)) or target == "__setitem__":
            yield node.args[0]
    elif node.op == "call_function":
        overloads = _overloads(target)
        if _name(target) == "triton_kernel_wrapper_mutation":
            yield from _written_by_kernel(node.kwargs)
        elif overloads:
            for overload in overloads:
                yield from _written_by_schema(node, overload._schema)
        elif target in _IN_PLACE or _ends_in_place(_name(target)) or node.kwargs.get("inplace") is True:
            yield node.args[0] if node.args else node.kwargs.get("input")
        yield node.kwargs.get("out")


def _written_by_kernel(call: Mapping[str, Any]) -> list[Any]:
    """What a user's Triton kernel stores to; everything it is given, where torch can't read it."""
    given = call["kwargs"]
    values = {name: value_of(arg) if isinstance(arg, fx.Node) else arg for name, arg in given.items()}
    try:
        from torch._higher_order_ops.triton_kernel_wrap import get_mutated_tensors

        names = get_mutated_tensors(
            call["kernel_idx"], call["constant_args_idx"], values, call["tma_descriptor_metadata"]
        )
    except Exception:
        return list(given.values())
    return [given[name] for name in names if name in given]


def _written_by_schema(node: fx.Node, schema: torch.FunctionSchema) -> Iterator[Any]:
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)


def _overloads(target: Any) -> list[torch._ops.OpOverload]:
    """Those that a call may be of: which one a packet takes is known once it is called."""
    if isinstance(target, torch._ops.OpOverloadPacket):
        return [getattr(target, name) for name in target.overloads()]
    return [target] if isinstance(target, torch._ops.OpOverload) else []


def _ends_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _name(target: Any) -> str:
    return str(getattr(target, "__name__", ""))
