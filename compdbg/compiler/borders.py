"""Makes sizes fit to cross from piece to piece: only tensors and the graph's own size inputs cross.

A `torch.Size`, a tuple of sizes or a computed size made in one piece and used in another would be
an input that no compiler takes. Each use gets its own expression over the graph's size inputs
instead, which belongs to the piece of its user.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, Min, Mod, PowByNatural, PythonMod

LOCAL = "compdbg_local"
"""In a node's meta: a size expression, which belongs to the piece of its only user."""
WEIGHT = "compdbg_weight"
"""In an input's meta: a parameter or buffer of the model that no call of the graph writes to."""

_OPERATORS: dict[Any, Any] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    sympy.Pow: operator.pow,
    PowByNatural: operator.pow,
    FloorDiv: operator.floordiv,
    CleanDiv: operator.floordiv,
    Mod: operator.mod,
    PythonMod: operator.mod,
    Max: torch.sym_max,
    Min: torch.sym_min,
}


def value_of(node: fx.Node) -> Any:
    """The fake value of a node: Dynamo's `example_value`, AOTAutograd's `val`."""
    return node.meta.get("example_value", node.meta.get("val"))


def memory_of(value: Any) -> int | None:
    """The block of memory that a tensor lies in; tensors that share it, alive at once, have the same."""
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return int(value.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def expression(size: Any) -> sympy.Expr | None:
    """The expression of a size: None for what is no int."""
    if isinstance(size, torch.SymInt):
        return size.node.expr
    return sympy.Integer(size) if isinstance(size, int) and not isinstance(size, bool) else None


def size_inputs(graph: fx.Graph) -> dict[sympy.Expr, fx.Node]:
    """Symbol -> the input that carries it; the first, where Dynamo proved several to be equal."""
    found: dict[sympy.Expr, fx.Node] = {}
    for node in graph.find_nodes(op="placeholder"):
        value = value_of(node)
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            found.setdefault(value.node.expr, node)
    return found


def localise_sizes(graph: fx.Graph) -> list[str]:
    """Rewrite every size as an expression at its use; names of sizes that could not be rewritten."""
    known = size_inputs(graph)
    stuck: list[str] = []
    for node in reversed(list(graph.nodes)):
        sizes = _sizes(node)
        if sizes is None or node.op in ("placeholder", "output") or node.meta.get(LOCAL):
            continue
        if not all(_can_emit(expr, known) for expr in sizes):
            stuck.append(node.name)
            continue
        for user in list(node.users):
            with graph.inserting_before(user):
                made = [_emit(graph, expr, known) for expr in sizes]
            replacement = made[0] if isinstance(value_of(node), torch.SymInt) else tuple(made)
            _replace_input(user, node, replacement)
        if not node.users:
            graph.erase_node(node)
    return stuck


def _replace_input(user: fx.Node, old: fx.Node, new: Any) -> None:
    def swap(node: fx.Node) -> Any:
        return new if node is old else node

    user.args = fx.node.map_arg(user.args, swap)
    user.kwargs = fx.node.map_arg(user.kwargs, swap)


def _sizes(node: fx.Node) -> list[sympy.Expr] | None:
    """The sizes that a node computes: one, or those of a tuple; None if it computes something else."""
    value = value_of(node)
    if isinstance(value, torch.SymInt):
        return [value.node.expr]
    if not isinstance(value, tuple) or node.op == "get_attr":
        return None
    if not isinstance(value, torch.Size) and not any(isinstance(part, torch.SymInt) for part in value):
        return None
    found = [expression(part) for part in value]
    return [expr for expr in found if expr is not None] if None not in found else None


def _emit(graph: fx.Graph, expr: sympy.Expr, known: dict[sympy.Expr, fx.Node]) -> Any:
    """Nodes that compute `expr` from the size inputs, at the insertion point; ints stay ints."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return known[expr]
    target = _OPERATORS[expr.func]
    result, *rest = [_emit(graph, part, known) for part in expr.args]
    for part in rest:
        value = target(*(value_of(n) if isinstance(n, fx.Node) else n for n in (result, part)))
        result = graph.call_function(target, (result, part))
        result.meta = {LOCAL: True, "example_value": value}
    return result


def _can_emit(expr: sympy.Expr, known: dict[sympy.Expr, fx.Node]) -> bool:
    if expr.is_Integer or expr in known:
        return True
    return expr.func in _OPERATORS and all(_can_emit(part, known) for part in expr.args)


def evaluate(expr: sympy.Expr, sizes: Mapping[sympy.Expr, Any]) -> Any:
    """An expression at given sizes, ints or symbols. Raises KeyError for an operator it does not know."""
    if expr.is_Integer:
        return int(expr)
    if expr in sizes:
        return sizes[expr]
    result, *rest = [evaluate(part, sizes) for part in expr.args]
    for part in rest:
        result = _OPERATORS[expr.func](result, part)
    return result
