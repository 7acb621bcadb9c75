"""Look-alikes of a pattern, made from its own graph: each differs in one thing, and must not match."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import fx

from compdbg.compiler.passes.fusion.fusion_pass import FusionPattern, trace_pattern
from compdbg.compiler.passes.inductor_pass import enable_fake_mode

aten = torch.ops.aten
NUMBER = "a number for"
CONVERT = torch.ops.prims.convert_element_type.default


class LookAlike(NamedTuple):
    """A graph, what was done to it, and by which code its miss is to be reported."""

    change: str
    graph: fx.Graph
    reason: str


@enable_fake_mode
def original(form: FusionPattern, **dtypes: torch.dtype) -> fx.GraphModule:
    """The pattern's own graph; `dtypes` are other ones for some of its inputs, by position."""
    scalars = form.scalar_workaround or {}
    inputs = [t.to(dtypes.get(f"arg{i}", t.dtype)) for i, t in enumerate(form.inputs())]
    return trace_pattern(lambda *tensors: form.pattern(*tensors, **scalars), inputs)


def lookalikes(form: FusionPattern) -> Iterator[LookAlike]:
    """Every kind, at every place of the graph where it is possible."""
    yield from _second_users(form)
    yield from _other_constants(form)
    yield from _casts_between(form)
    yield from _mutations_between(form)
    yield from _mixed_dtypes(form)
    yield from _numbers_for_tensors(form)


def _copies(form: FusionPattern, at: Callable[[fx.Graph], list[Any]]) -> Iterator[tuple[fx.Graph, Any]]:
    """For each place that `at` finds, the graph anew and that place in it."""
    for i in range(len(at(original(form).graph))):
        module = original(form)
        module.graph.owning_module = module
        yield module.graph, at(module.graph)[i]


def _calls(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "call_function"]


def _inner(graph: fx.Graph) -> list[fx.Node]:
    """Values that the pattern keeps to itself."""
    results = graph.output_node().all_input_nodes
    return [n for n in _calls(graph) if n not in results and isinstance(n.meta["val"], torch.Tensor)]


def _second_users(form: FusionPattern) -> Iterator[LookAlike]:
    for graph, node in _copies(form, _inner):
        output = graph.output_node()
        results = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        output.args = ((*results, node),)
        yield LookAlike(f"second user of {node}", graph, "multiple-users")


def _constants(form: FusionPattern) -> Callable[[fx.Graph], list[tuple[fx.Node, int]]]:
    free = set((form.scalar_workaround or {}).values())

    def at(graph: fx.Graph) -> list[tuple[fx.Node, int]]:
        return [
            (node, i)
            for node in _calls(graph)
            if node.target is not operator.getitem
            for i, value in enumerate(node.args)
            if isinstance(value, (bool, int, float, torch.dtype)) and value not in free
        ]

    return at


def _other_constants(form: FusionPattern) -> Iterator[LookAlike]:
    for graph, (node, i) in _copies(form, _constants(form)):
        value = node.args[i]
        node.update_arg(i, _other(value))
        yield LookAlike(f"{_other(value)} for {value} in {node}", graph, "arg-mismatch")


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, torch.dtype):
        return torch.float64 if value is not torch.float64 else torch.float32
    return value + 1 if isinstance(value, int) else value * 2


def _casts_between(form: FusionPattern) -> Iterator[LookAlike]:
    for graph, node in _copies(form, _inner):
        users = list(node.users)
        with graph.inserting_after(node):
            cast = graph.call_function(CONVERT, (node, torch.float64))
        cast.meta["val"] = node.meta["val"].double()
        for user in users:
            user.replace_input_with(node, cast)
        yield LookAlike(f"cast after {node}", graph, "target-mismatch")


def _mutations_between(form: FusionPattern) -> Iterator[LookAlike]:
    for graph, node in _copies(form, lambda graph: _inner(graph)[-1:]):
        first = next(iter(graph.nodes))
        with graph.inserting_before(first):
            other = graph.placeholder("written_to")
        other.meta["val"] = first.meta["val"]
        with graph.inserting_after(node):
            graph.call_function(aten.add_.Tensor, (other, 1)).meta["val"] = other.meta["val"]
        yield LookAlike(f"mutation after {node}", graph, "mutation-region")


def _mixed_dtypes(form: FusionPattern) -> Iterator[LookAlike]:
    names = inspect.signature(form.pattern).parameters
    for i, (name, tensor) in enumerate(zip(names, form.inputs(), strict=False)):
        if tensor.dtype is torch.bfloat16 and name != "kv_cache":  # a cache may be of any dtype
            module = original(form, **{f"arg{i}": torch.float32})
            module.graph.owning_module = module
            yield LookAlike(f"float32 for argument {i}", module.graph, "extra-check")


def _numbers_for_tensors(form: FusionPattern) -> Iterator[LookAlike]:
    """`x * 2` where the pattern multiplies two tensors: the same operator."""

    def second_operands(graph: fx.Graph) -> list[fx.Node]:
        inputs = graph.find_nodes(op="placeholder")
        return [node for node in inputs if node.users and all(_takes_number(u, node) for u in node.users)]

    for graph, node in _copies(form, second_operands):
        for user in list(node.users):
            user.update_arg(1, 2)
        yield LookAlike(f"{NUMBER} {node}", graph, "extra-check")


def _takes_number(user: fx.Node, node: fx.Node) -> bool:
    binary = (aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.div.Tensor)
    return user.target in binary and user.args[1] is node and user.args[0] is not node
