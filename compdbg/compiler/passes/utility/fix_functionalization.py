"""Undoes functionalization where Inductor would copy and needs not: `auto_functionalized` nodes.

An operator that writes to an argument stands in the graph as a pure one that returns what it
wrote. Inductor writes in place again where it can; the first form of such nodes, which patterns
and replacements may still trace to, it copies for more often than it has to. Here a node becomes
the plain call where nothing reads the old value any more, and nowhere else.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from compdbg.compiler.borders import memory_of
from compdbg.compiler.passes.inductor_pass import InductorPass


class FixFunctionalizationPass(InductorPass):
    """Runs last: dead-code elimination after it would take plain calls for dead."""

    def __call__(self, graph: fx.Graph) -> None:
        target = torch.ops.higher_order.auto_functionalized
        order = {node: i for i, node in enumerate(graph.nodes)}
        for node in list(graph.find_nodes(op="call_function", target=target)):
            written = dict(_written(node))
            if all(_is_last_reader(node, value, order) for value in written.values()):
                _plain_call(graph, node, written)


def _written(node: fx.Node) -> Iterator[tuple[str, Any]]:
    """The arguments that the operator writes to, in the order in which they are returned."""
    for argument in node.args[0]._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield argument.name, node.kwargs.get(argument.name)


def _is_last_reader(node: fx.Node, value: Any, order: dict[fx.Node, int]) -> bool:
    """Nothing after `node` sees the memory of `value` as it was before, and it is no one else's."""
    if not isinstance(value, fx.Node):
        return value is None
    memory = _memory(value)
    if memory is None:
        return False
    sharing = [other for other in node.graph.nodes if _memory(other) == memory]
    if any(other.op in ("placeholder", "get_attr") for other in sharing):
        return False
    readers = {user for other in sharing for user in other.users}
    return all(order[user] <= order[node] for user in readers)


def _memory(node: fx.Node) -> int | None:
    return memory_of(node.meta.get("val"))


def _plain_call(graph: fx.Graph, node: fx.Node, written: dict[str, Any]) -> None:
    function: Any = node.args[0]
    returned = len(function._schema.returns)
    with graph.inserting_before(node):
        call = graph.call_function(function, (), dict(node.kwargs))
    values = node.meta.get("val")
    call.meta = {**node.meta, "val": values[0] if isinstance(values, (tuple, list)) and values else None}
    if "eager_input_vals" in call.meta:
        call.meta["eager_input_vals"] = ((), node.meta["eager_input_vals"][1])
    new = list(written.values())
    first = max(1, returned)
    for user in list(node.users):
        if user.target is not operator.getitem:
            return
    for user in list(node.users):
        index: Any = user.args[1]
        if index >= first:
            user.replace_all_uses_with(new[index - first])
        elif returned == 1:
            user.replace_all_uses_with(call)
        else:
            with graph.inserting_after(call):
                item = graph.call_function(operator.getitem, (call, index))
            item.meta = dict(user.meta)
            user.replace_all_uses_with(item)
        graph.erase_node(user)
    graph.erase_node(node)
