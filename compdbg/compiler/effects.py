"""What the operators of a graph write to, in place or through a view.

Two witnesses, since neither sees all: operators say what they write to, by schema, name or argument; and
the trace has run each of them on the fake inputs, whose version counts what was written by branches of a
condition, functions under `vmap`, NumPy and whatever else hides its operators. Operators of one's own have
a schema and no count.

Private names, seen in torch 2.11 to 2.14.1: `torch._higher_order_ops.triton_kernel_wrap`, of which
`triton_kernel_wrapper_mutation` is a call of a user's Triton kernel, and `get_mutated_tensors` reads it.
"""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from compdbg.compiler.borders import memory_of, value_of

_ASSIGNMENTS = (
    "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift",
    "irshift", "setitem",
)  # fmt: skip
_IN_PLACE = frozenset(getattr(operator, name) for name in _ASSIGNMENTS)
_IN_PLACE_METHODS = frozenset(f"__{name}__" for name in _ASSIGNMENTS)
_STATISTICS = ("running_mean", "running_var")
"""What norms write to while they train, and their schemas do not say so."""
_TRAINS = ("training", "train", "use_input_stats")


def written_inputs(graph: fx.Graph) -> frozenset[str]:
    """Names of the inputs whose memory the graph changes."""
    inputs = graph.find_nodes(op="placeholder")
    written = {memory_of(value_of(node)) for writer in graph.nodes for node in written_by(writer)}
    written |= {memory_of(value) for value in _counted_writes([value_of(node) for node in inputs])}
    written.discard(None)
    return frozenset(node.name for node in inputs if memory_of(value_of(node)) in written)


def _counted_writes(values: list[Any]) -> Iterator[torch.Tensor]:
    """Fake inputs that the trace has written to, as their versions tell.

    One that is no view, and lies inside its memory or where an earlier one lies, was put there after it
    was made, which counts as a write.
    """
    taken: set[int | None] = set()
    for value in values:
        if isinstance(value, torch.Tensor) and not value.is_inference():
            moved = memory_of(value) in taken or statically_known_true(value.storage_offset() != 0)
            if value._version > (moved and not value._is_view()):
                yield value
            taken.add(memory_of(value))


def written_by(node: fx.Node) -> Iterator[fx.Node]:
    """The nodes whose memory this call may write to."""
    for value in _written_arguments(node):
        items = value if isinstance(value, (list, tuple)) else [value]
        yield from (item for item in items if isinstance(item, fx.Node))


def _written_arguments(node: fx.Node) -> Iterator[Any]:
    target = node.target
    if node.op == "call_method":
        if _ends_in_place(str(target)) or target in _IN_PLACE_METHODS:
            yield node.args[0]
    elif node.op == "call_function":
        overloads = _overloads(target)
        if _name(target) == "triton_kernel_wrapper_mutation":
            yield from _written_by_kernel(node.kwargs)
        for overload in overloads:
            yield from _written_by_schema(_given_to(node, overload._schema), overload._schema)
        if isinstance(target, types.FunctionType):
            yield from _written_by_function(node, target)
        elif target in _IN_PLACE or (not overloads and _ends_in_place(_name(target))):
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


def _given_to(node: fx.Node, schema: torch.FunctionSchema) -> dict[str, Any]:
    """The arguments of a call by their names in the schema of what is called."""
    positional = [argument.name for argument in schema.arguments if not argument.kwarg_only]
    return {**dict(zip(positional, node.args, strict=False)), **node.kwargs}


def _written_by_schema(given: Mapping[str, Any], schema: torch.FunctionSchema) -> Iterator[Any]:
    for argument in schema.arguments:
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = given.get(argument.name)
        if not (isinstance(argument.type, torch.ListType) and _is_tensor(value)):  # else of another overload
            yield value
    yield from _statistics(given)


def _written_by_function(node: fx.Node, function: types.FunctionType) -> Iterator[Any]:
    """What a function in Python says that it writes to: by its name, `inplace=True`, or what it trains."""
    try:
        given = inspect.signature(function).bind(*node.args, **node.kwargs)
        given.apply_defaults()
    except (TypeError, ValueError):
        return
    if given.arguments.get("inplace") is True or _ends_in_place(function.__name__):
        yield next(iter(given.arguments.values()), None)
    yield from _statistics(given.arguments)


def _statistics(given: Mapping[str, Any]) -> Iterator[Any]:
    if any(given.get(name) for name in _TRAINS):
        yield from (given.get(name) for name in _STATISTICS)


def _overloads(target: Any) -> list[torch._ops.OpOverload]:
    """Those that a call may be of: a packet, or a function of torch's, takes one once it is called."""
    if isinstance(target, types.BuiltinFunctionType):
        target = getattr(torch.ops.aten, target.__name__, None)
    if isinstance(target, torch._ops.OpOverloadPacket):
        return [getattr(target, name) for name in target.overloads()]
    return [target] if isinstance(target, torch._ops.OpOverload) else []


def _is_tensor(value: Any) -> bool:
    return isinstance(value, fx.Node) and isinstance(value_of(value), torch.Tensor)


def _ends_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _name(target: Any) -> str:
    return str(getattr(target, "__name__", ""))
