"""A piece as canonical text: equal for pieces that compile to the same thing, in any process.

Names, positions in the model and symbols' names are left out; operators, constants, the inputs'
types, shapes and shared memory are in. Constants are set apart, so that pieces can be told to be
equal but for one of them.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import sympy
import torch
from torch import fx

from compdbg.compiler.borders import WEIGHT, memory_of, value_of
from compdbg.compiler.graph_data import ByName, named
from compdbg.compiler.pieces import Piece, attribute

_TAKES_SYMBOL = frozenset(
    getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "iadd", "isub", "imul",
                 "lt", "le", "gt", "ge", "eq", "ne", "getitem")
) | {torch.add, torch.sub, torch.mul, torch.div, torch.select, torch.eq, torch.lt, torch.gt}  # fmt: skip
_METHODS_TAKE_SYMBOL = frozenset(
    ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "select", "fill_", "eq", "lt", "gt")
)


class Constant(NamedTuple):
    """A number or text in a piece's graph, and where: node, then steps into its arguments."""

    node: str
    path: tuple[Any, ...]
    value: Any
    liftable: bool
    """An int where the operator takes a symbol as well: it can become an input."""


class PieceText(NamedTuple):
    """`text` has a blank for each constant; together they are the whole piece."""

    text: str
    constants: tuple[Constant, ...]
    stable: bool
    """The same in every process: nothing in it is known by its address only."""

    def full(self, lifted: frozenset[int] = frozenset()) -> str:
        """With the constants' values, except for those that are inputs now."""
        values = (
            f"constant {i} = {'input' if i in lifted else repr(constant.value)}"
            for i, constant in enumerate(self.constants)
        )
        return "\n".join([self.text, *values])


def piece_text(piece: Piece, batch: frozenset[sympy.Symbol]) -> PieceText:
    """The canonical text of a piece."""
    writer = _Writer(piece.module, batch)
    lines = [writer.line(node) for node in piece.module.graph.nodes]
    return PieceText("\n".join(lines), tuple(writer.constants), writer.stable)


class _Writer:
    def __init__(self, module: fx.GraphModule, batch: frozenset[sympy.Symbol]) -> None:
        self.constants: list[Constant] = []
        self.stable = True
        self._module = module
        self._batch = batch
        self._numbers: dict[fx.Node, int] = {}
        self._symbols: dict[sympy.Symbol, sympy.Symbol] = {}
        self._memory: dict[Any, int] = {}

    def line(self, node: fx.Node) -> str:
        self._numbers[node] = len(self._numbers)
        if node.op == "placeholder":
            return f"{'weight' if WEIGHT in node.meta else 'input'} {self._value(value_of(node))}"
        if node.op == "get_attr":
            return f"attribute {self._attribute(attribute(self._module, node.target))}"
        target = node.target if isinstance(node.target, str) else self._object(node.target)
        args = self._argument(node, node.args, ("args",))
        kwargs = self._argument(node, dict(node.kwargs), ("kwargs",))
        custom = node.meta.get("custom")
        return f"{node.op} {target} {args} {kwargs}" + (f" {custom}" if custom else "")

    def _argument(self, node: fx.Node, value: Any, path: tuple[Any, ...]) -> str:
        match value:
            case fx.Node():
                return f"%{self._numbers[value]}"
            case tuple() | list() | slice() | dict():
                parts = (f"{key}: {self._argument(node, part, (*path, key))}" for key, part in _parts(value))
                return f"{type(value).__name__.removeprefix('immutable_')}({', '.join(parts)})"
            case bool() | None:
                return str(value)
            case int() | float() | str():
                self.constants.append(Constant(node.name, path, value, _is_liftable(node, value, path)))
                return f"<{type(value).__name__}>"
        return self._object(value)

    def _object(self, value: Any) -> str:
        found = named(value)
        if isinstance(found, ByName):
            return f"{found.module}.{found.path}"
        if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return str(value)
        self.stable = False
        return f"{type(value).__name__}@{id(value)}"

    def _value(self, value: Any) -> str:
        if isinstance(value, torch.SymInt):
            return f"size {self._size(value)}"
        if not isinstance(value, torch.Tensor):
            return f"{type(value).__name__} {value!r}"
        shape = ", ".join(self._size(n) for n in value.shape)
        stride = ", ".join(self._size(n) for n in value.stride())
        memory = self._memory.setdefault(memory_of(value), len(self._memory))
        gradient = " grad" if value.requires_grad and torch.is_grad_enabled() else ""
        offset = self._size(value.storage_offset())
        return f"{value.dtype}[{shape}][{stride}]+{offset} {value.device} memory {memory}{gradient}"

    def _size(self, size: Any) -> str:
        if not isinstance(size, torch.SymInt):
            return str(size)
        expr = size.node.expr
        for symbol in sorted(expr.free_symbols, key=str):
            kind = "batch" if symbol in self._batch else "size"
            self._symbols.setdefault(symbol, sympy.Symbol(f"{kind}{len(self._symbols)}", integer=True))
        return str(expr.xreplace(self._symbols))

    def _attribute(self, value: Any) -> str:
        if isinstance(value, fx.GraphModule):
            return self._nested(value)
        if isinstance(value, torch.Tensor) and value.numel() <= 1 << 16:
            raw = value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
            return f"{value.dtype}{list(value.shape)} {hashlib.sha256(raw).hexdigest()}"
        self.stable = False
        return f"{type(value).__name__}@{id(value)}"

    def _nested(self, module: fx.GraphModule) -> str:
        """A graph that an operator such as `cond` is given, constants and all."""
        inner = _Writer(module, self._batch)
        inner._symbols = self._symbols
        lines = "\n".join(inner.line(node) for node in module.graph.nodes)
        self.stable &= inner.stable
        return f"graph {{\n{PieceText(lines, tuple(inner.constants), inner.stable).full()}\n}}"


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return sorted(value.items())
    return enumerate((value.start, value.stop, value.step) if isinstance(value, slice) else value)


def _is_liftable(node: fx.Node, value: Any, path: tuple[Any, ...]) -> bool:
    if type(value) is not int:
        return False
    target = node.target
    if isinstance(target, torch._ops.OpOverloadPacket):
        overloads = target.overloads()
        target = getattr(target, overloads[0]) if len(overloads) == 1 else target
    if isinstance(target, torch._ops.OpOverload):
        return _schema_takes_symbol(target, path)
    if node.op == "call_method":
        return target in _METHODS_TAKE_SYMBOL
    return target in _TAKES_SYMBOL


def _schema_takes_symbol(target: Any, path: tuple[Any, ...]) -> bool:
    """Whether the argument is declared `SymInt`; a plain `int` would be baked in."""
    arguments = target._schema.arguments
    kind, place = path[0], path[1] if len(path) > 1 else None
    if kind == "kwargs":
        argument = next((a for a in arguments if a.name == place), None)
    else:
        argument = arguments[place] if isinstance(place, int) and place < len(arguments) else None
    return argument is not None and "SymInt" in str(argument.real_type)
