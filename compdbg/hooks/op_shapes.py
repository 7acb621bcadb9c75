"""Ops whose result has another shape at size 0 or 1 than the graph was traced with.

Every dynamic size is traced as "at least 2". For most ops the graph is right for 0 and 1 too; for
`x.squeeze(0)`, `x[:2]` or `x[1]` it is not, and no guard but the bound says so. Each such op is
run again on meta tensors of that size: nothing is computed, nothing is allocated.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import Any

from compdbg.hooks import userline
from compdbg.hooks.compile_facts import Branch, Facts, source_name
from compdbg.hooks.guard_names import user_name

_SENSITIVE = frozenset(
    ("broadcast_to", "chunk", "diff", "expand", "expand_as", "getitem", "index_select", "narrow",
     "select", "slice", "split", "squeeze", "tensor_split", "topk", "unfold", "unsafe_chunk", "view_as")
)  # fmt: skip
_SIZES = (1, 0)
_MOST = 512
"""Nodes looked at, in a graph with thousands of slices."""


class _CannotTell(Exception):
    """An argument has no counterpart on meta."""


def find_shape_flips(gm: Any, facts: Facts) -> None:
    """Add a branch to the facts for each op and size that disagree."""
    nodes = [n for n in gm.graph.nodes if n.op.startswith("call_") and _name(n) in _SENSITIVE][:_MOST]
    if not nodes:
        return
    torch = sys.modules["torch"]
    symbols = dict(_symbols_of_inputs(torch, gm))
    hints = {symbol: hint for symbol, (_, hint) in symbols.items()}
    for symbol, (sources, _) in symbols.items():
        for node in nodes:
            if not any(_depends(n.meta.get("example_value"), symbol) for n in node.all_input_nodes):
                continue
            flips = tuple(size for size in _SIZES if _differs(torch, node, {**hints, symbol: size}))
            if flips:
                where = userline.of_node(node)
                facts.branches.append(Branch(sources, f"the shape of {_called(node)}", flips, where, True))


def _name(node: Any) -> str:
    return node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", ""))


def _called(node: Any) -> str:
    """`x.squeeze()`, `x[…]`: the op on what the user calls its first input, if that is an input."""
    first = node.all_input_nodes[0] if node.all_input_nodes else None
    source = getattr(first.meta.get("grapharg"), "source", None) if first is not None else None
    name = user_name(source_name(source)) if source is not None else "…"
    return f"{name}[…]" if node.target is operator.getitem else f"{name}.{_name(node)}()"


def _symbols_of_inputs(torch: Any, gm: Any) -> Iterator[tuple[Any, tuple[tuple[str, ...], int]]]:
    """The backed sizes of the graph's inputs that are at least 2: their sources and present values."""
    found: dict[Any, tuple[list[str], int]] = {}
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            break
        example = node.meta.get("example_value")
        source = source_name(getattr(node.meta.get("grapharg"), "source", None))
        if not isinstance(example, torch.Tensor) or not source:
            continue
        for dim, size in enumerate(example.shape):
            expr = getattr(getattr(size, "node", None), "expr", None)
            if expr is None or not expr.is_Symbol or size.node.hint is None:
                continue
            bounds = size.node.shape_env.var_to_range.get(expr)
            if bounds is None or bounds.lower != 2:
                continue
            names, _ = found.setdefault(expr, ([], int(size.node.hint)))
            names.append(f"{source}.size()[{dim}]")
    for symbol, (names, hint) in found.items():
        yield symbol, (tuple(names), hint)


def _differs(torch: Any, node: Any, sizes: dict[Any, int]) -> bool:
    """Whether the op, run on meta tensors of these sizes, gives other shapes than the graph says."""
    try:
        args = _at(torch, node.args, sizes)
        kwargs = _at(torch, node.kwargs, sizes)
        wanted = _shapes(torch, node.meta.get("example_value"), sizes)
    except _CannotTell:
        return False
    try:
        with torch.no_grad(), torch._C.DisableTorchFunction():
            result = _run(node, args, kwargs)
    except (NotImplementedError, TypeError):
        return False
    except (RuntimeError, IndexError, ValueError):
        return True
    return bool(_shapes(torch, result, {}) != wanted)


def _depends(example: Any, symbol: Any) -> bool:
    exprs = (getattr(getattr(size, "node", None), "expr", None) for size in getattr(example, "shape", ()))
    return any(expr is not None and symbol in expr.free_symbols for expr in exprs)


def _run(node: Any, args: Any, kwargs: Any) -> Any:
    if node.op == "call_method":
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    return node.target(*args, **kwargs)


def _at(torch: Any, value: Any, sizes: dict[Any, int]) -> Any:
    """An argument of a node with every size replaced by its number, tensors on meta."""
    if isinstance(value, torch.fx.Node):
        value = value.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        return _on_meta(torch, value, sizes)
    if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
        return _number(value, sizes)
    if isinstance(value, (list, tuple)):
        items = [_at(torch, item, sizes) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _at(torch, item, sizes) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_at(torch, part, sizes) for part in (value.start, value.stop, value.step)))
    if not (value is None or isinstance(value, (bool, int, float, str, torch.dtype, type(Ellipsis)))):
        raise _CannotTell
    return value


def _on_meta(torch: Any, tensor: Any, sizes: dict[Any, int]) -> Any:
    if tensor.layout is not torch.strided or type(tensor).__name__ != "FakeTensor":
        raise _CannotTell
    shape = [_number(size, sizes) for size in tensor.shape]
    strides = [_number(step, sizes) for step in tensor.stride()]
    return torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")


def _number(value: Any, sizes: dict[Any, int]) -> int:
    node = getattr(value, "node", None)
    if node is None:
        return int(value)
    integer = sys.modules["sympy"].Integer
    expr = node.expr.xreplace({symbol: integer(size) for symbol, size in sizes.items()})
    if not expr.is_number:
        raise _CannotTell
    return int(expr)


def _shapes(torch: Any, value: Any, sizes: dict[Any, int]) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(_number(size, sizes) for size in value.shape)
    if isinstance(value, (list, tuple)):
        return [_shapes(torch, item, sizes) for item in value]
    raise _CannotTell
