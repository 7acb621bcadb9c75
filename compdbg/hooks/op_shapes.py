"""The shapes that a graph's ops were traced with, to be tried at other sizes.

A graph is traced at one size and generalised: every dynamic size is taken to be at least 2, and
where a layout depends on the size torch adds a guard. Most such guards protect nothing: the graph
is right for sizes that break them too. For `x.squeeze(0)` at 1 or `x[:2]` at 1 it is not. Which it is
shows when the ops are run again on meta tensors of the real sizes: nothing is computed or allocated.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from compdbg.events import Where
from compdbg.hooks import userline
from compdbg.hooks.guard_names import source_name, user_name

_SENSITIVE = frozenset(
    ("add", "as_strided", "baddbmm", "bmm", "broadcast_to", "cat", "chunk", "concat", "diff", "div", "eq",
     "expand", "expand_as", "flatten", "getitem", "index_select", "matmul", "mm", "mul", "narrow",
     "reshape", "reshape_as", "scaled_dot_product_attention", "select", "slice", "split", "squeeze",
     "stack", "sub", "tensor_split", "topk", "truediv", "unflatten", "unfold", "view", "view_as", "where")
)  # fmt: skip
_ELEMENTWISE = frozenset(("add", "div", "eq", "mul", "sub", "truediv", "where"))
"""Of interest where two inputs are broadcast."""
_MOST = 512
"""Ops kept, of a graph with thousands."""

Sizes = Mapping[Any, int]
"""sympy's symbols -> sizes."""


class _CannotTell(Exception):
    """An argument or result that has no counterpart on meta."""


class _Tensor(NamedTuple):
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: Any


class Op(NamedTuple):
    """One op of the graph, with its sizes as expressions."""

    name: str
    where: Where | None
    run: Callable[..., Any]
    args: Any
    kwargs: Any
    result: Any


class OpShapes:
    """The ops of one graph whose result depends on a size by more than its formula."""

    def __init__(self, gm: Any) -> None:
        torch = sys.modules["torch"]
        self.sources: dict[Any, str] = {}
        """Symbol -> an input's size."""
        self.ops: list[Op] = []
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                self._note_input(torch, node)
            elif node.op.startswith("call_") and _name(node) in _SENSITIVE and len(self.ops) < _MOST:
                op = _op(torch, node)
                if op is not None:
                    self.ops.append(op)

    def _note_input(self, torch: Any, node: Any) -> None:
        example = node.meta.get("example_value")
        source = source_name(getattr(node.meta.get("grapharg"), "source", None))
        if isinstance(example, torch.Tensor) and source:
            for dim, size in enumerate(example.shape):
                expr = _expr(size)
                if getattr(expr, "is_Symbol", False):
                    self.sources.setdefault(expr, f"{source}.size()[{dim}]")

    def wrong_at(self, sizes: Sizes) -> Op | None:
        """The first op that gives another shape at these sizes than the graph says, or fails."""
        torch = sys.modules["torch"]
        modes = sys.modules["torch.utils._python_dispatch"]._disable_current_modes
        with modes(), torch.no_grad(), torch._C.DisableTorchFunction():
            return next((op for op in self.ops if not _agrees(torch, op, sizes)), None)


def _name(node: Any) -> str:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return str(name).strip("_")


def _op(torch: Any, node: Any) -> Op | None:
    """None where no size of its inputs is dynamic, or where it can't be run on meta."""
    try:
        args, kwargs = _template(torch, node.args), _template(torch, node.kwargs)
        result = _template(torch, node.meta.get("example_value"))
    except _CannotTell:
        return None
    if not (_is_dynamic(args) or _is_dynamic(kwargs)) or not _has_tensor(result):
        return None
    if _name(node) in _ELEMENTWISE and sum(isinstance(arg, _Tensor) for arg in args) < 2:
        return None
    call = _method(node.target) if node.op == "call_method" else node.target
    return Op(_called(node), userline.of_node(node), call, args, kwargs, result)


def _method(name: str) -> Callable[..., Any]:
    def call(first: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(first, name)(*args, **kwargs)

    return call


def _called(node: Any) -> str:
    """`x.squeeze()`, `x[…]`: the op on what the user calls its first input, if that is an input."""
    first = node.all_input_nodes[0] if node.all_input_nodes else None
    source = getattr(first.meta.get("grapharg"), "source", None) if first is not None else None
    name = user_name(source_name(source)) if source is not None else "…"
    return f"{name}[…]" if node.target is operator.getitem else f"{name}.{_name(node)}()"


def _expr(value: Any) -> Any:
    node = getattr(value, "node", None)
    return value if node is None else node.expr


def _template(torch: Any, value: Any) -> Any:
    """An argument with sizes as expressions and tensors as their metadata: nothing is kept alive."""
    if isinstance(value, torch.fx.Node):
        value = value.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or type(value).__name__ != "FakeTensor":
            raise _CannotTell
        return _Tensor(tuple(map(_expr, value.shape)), tuple(map(_expr, value.stride())), value.dtype)
    if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
        return value.node.expr
    if isinstance(value, (list, tuple)):
        items = [_template(torch, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _template(torch, item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_template(torch, part) for part in (value.start, value.stop, value.step)))
    if not (value is None or isinstance(value, (bool, int, float, str, torch.dtype, type(Ellipsis)))):
        raise _CannotTell
    return value


def _leaves(template: Any) -> list[Any]:
    if isinstance(template, _Tensor):
        return [*template.sizes, *template.strides]
    if isinstance(template, dict):
        template = list(template.values())
    if isinstance(template, slice):
        template = [template.start, template.stop, template.step]
    if isinstance(template, (list, tuple)):
        return [leaf for item in template for leaf in _leaves(item)]
    return [template]


def _is_dynamic(template: Any) -> bool:
    return any(getattr(leaf, "free_symbols", None) for leaf in _leaves(template))


def _has_tensor(template: Any) -> bool:
    if isinstance(template, _Tensor):
        return True
    return isinstance(template, (list, tuple)) and any(_has_tensor(item) for item in template)


def _agrees(torch: Any, op: Op, sizes: Sizes) -> bool:
    try:
        args, kwargs = _filled(torch, op.args, sizes), _filled(torch, op.kwargs, sizes)
        wanted = _shapes_of(_filled(torch, op.result, sizes))
    except _CannotTell:
        return True
    except RuntimeError:
        return False
    try:
        return bool(_shapes_of(op.run(*args, **kwargs)) == wanted)
    except (NotImplementedError, TypeError):
        return True
    except (RuntimeError, IndexError, ValueError):
        return False


def _filled(torch: Any, template: Any, sizes: Sizes) -> Any:
    """The template at these sizes: numbers for expressions, tensors on meta for metadata."""
    if isinstance(template, _Tensor):
        shape = [_number(size, sizes) for size in template.sizes]
        strides = [_number(step, sizes) for step in template.strides]
        return torch.empty_strided(shape, strides, dtype=template.dtype, device="meta")
    if isinstance(template, (list, tuple)):
        items = [_filled(torch, item, sizes) for item in template]
        return items if isinstance(template, list) else tuple(items)
    if isinstance(template, dict):
        return {key: _filled(torch, item, sizes) for key, item in template.items()}
    if isinstance(template, slice):
        return slice(*(_filled(torch, p, sizes) for p in (template.start, template.stop, template.step)))
    return _number(template, sizes) if hasattr(template, "free_symbols") else template


def _number(value: Any, sizes: Sizes) -> int:
    if not hasattr(value, "free_symbols"):
        return int(value)
    integer = sys.modules["sympy"].Integer
    number = value.xreplace({symbol: integer(size) for symbol, size in sizes.items()})
    if not number.is_number:
        raise _CannotTell
    return int(number)


def _shapes_of(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return tuple(shape)
    return [_shapes_of(item) for item in value] if isinstance(value, (list, tuple)) else None
