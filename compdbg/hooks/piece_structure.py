"""What a piece of a split graph is made of: what crosses its borders, and which pieces are equal.

Two pieces are twins when they have the same nodes with the same arguments, over inputs of the same
types, whatever their nodes are called. With the constants left out of the comparison, pieces are
found that would be twins but for a number, and the number is known.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from compdbg.events import Apart, Boundary, Where
from compdbg.hooks import userline


class Constant(NamedTuple):
    """A Python number or string that stands as an argument in the graph."""

    op: str
    argument: str
    value: str
    line: str
    where: Where | None = None


class Structure(NamedTuple):
    """A piece with the names taken out. `shape` leaves the values of `constants` open."""

    shape: tuple[str, ...]
    constants: tuple[Constant, ...]
    ops: int
    op_names: tuple[str, ...]
    computing: tuple[str, ...] = ()
    """Of the ops those whose result is no size."""

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(constant.value for constant in self.constants)


class Piece(NamedTuple):
    name: str
    structure: Structure


def structure_of(module: Any) -> Structure:
    """Read the graph of an FX module into a form that compares equal for twins."""
    reader = _Reader()
    for node in module.graph.nodes:
        reader.read(node)
    return Structure(
        tuple(reader.lines),
        tuple(reader.constants),
        reader.ops,
        tuple(reader.op_names),
        tuple(reader.computing),
    )


def twin_of(piece: Structure, earlier: Iterable[Piece]) -> str | None:
    """The first earlier piece that is equal to this one."""
    for other in earlier:
        if other.structure.shape == piece.shape and other.structure.values == piece.values:
            return other.name
    return None


def difference(piece: Structure, earlier: Iterable[Piece]) -> str | None:
    """The constant that tells this piece from the first earlier one that is otherwise equal."""
    related = related_to(piece, earlier)
    return None if related is None else f"{_say(_differing(piece, related))} in {related.name}"


def related_to(piece: Structure, earlier: Iterable[Piece]) -> Piece | None:
    """The first earlier piece that is equal to this one but for constants."""
    alike = (other for other in earlier if other.structure.shape == piece.shape)
    return next((other for other in alike if other.structure.values != piece.values), None)


def apart(piece: Structure, other: Piece) -> list[Apart]:
    """The constants that tell a piece from another."""
    return [
        Apart(op=m.op, argument=m.argument, here=m.value[:100], there=t.value[:100], where=m.where)
        for m, t in _differing(piece, other)
    ]


def _differing(piece: Structure, other: Piece) -> list[tuple[Constant, Constant]]:
    pairs = zip(piece.constants, other.structure.constants, strict=True)
    return [(mine, theirs) for mine, theirs in pairs if mine.value != theirs.value]


def _say(differing: Sequence[tuple[Constant, Constant]]) -> str:
    said = [
        f"{mine.argument} of {mine.op}{mine.line} is {mine.value}, and {theirs.value}"
        for mine, theirs in differing[:3]
    ]
    more = f" (and {len(differing) - 3} more constants)" if len(differing) > 3 else ""
    return "; ".join(said) + more


def inputs_of(module: Any) -> list[Boundary]:
    """What comes into the piece: activations, weights and sizes, as its placeholders."""
    return [boundary(n.name, value_of(n), n) for n in module.graph.nodes if n.op == "placeholder"]


def outputs_of(module: Any) -> list[Boundary]:
    """What leaves the piece; an element that is no node is a constant."""
    returned = next(n for n in reversed(module.graph.nodes) if n.op == "output").args[0]
    elements = returned if isinstance(returned, (tuple, list)) else (returned,)
    return [
        boundary(e.name, value_of(e), e) if _is_node(e) else Boundary(name=str(e), type=type(e).__name__)
        for e in elements
    ]


def value_of(node: Any) -> Any:
    """The fake value of a node: Dynamo's key for it, or AOT's."""
    return node.meta.get("example_value", node.meta.get("val"))


def boundary(name: str, value: Any, node: Any = None) -> Boundary:
    shape = getattr(value, "shape", None)
    unbacked = _unbacked(value)
    if shape is None or not hasattr(value, "dtype"):
        return Boundary(
            name=name,
            type="unknown" if value is None else type(value).__name__,
            unbacked=unbacked,
            where=None if node is None else userline.of_node(node),
        )
    return Boundary(
        name=name,
        type="Tensor",
        shape=[str(size) for size in shape],
        dtype=str(value.dtype).removeprefix("torch."),
        unbacked=unbacked,
        where=userline.of_node(node) if unbacked and node is not None else None,
    )


def _unbacked(value: Any) -> list[str]:
    shapes = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    if shapes is None or not hasattr(shapes, "free_unbacked_symbols"):
        return []
    try:
        return sorted(str(symbol) for symbol in shapes.free_unbacked_symbols(value))
    except Exception:
        return []


def op_name(target: Any) -> str:
    """`aten::add`, `linear`, `mul`: an op in a word."""
    qualified = getattr(target, "_qualified_op_name", None)
    if qualified is not None:
        return str(qualified)
    if hasattr(target, "_schema"):
        return str(target._schema.name)
    return str(target if isinstance(target, str) else getattr(target, "__name__", target))


def _is_node(value: Any) -> bool:
    node = sys.modules["torch.fx"].Node
    return isinstance(value, node)


_OBJECT_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class _Reader:
    """Turns nodes into lines in which earlier nodes are numbers and constants are blanks."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: list[Constant] = []
        self.op_names: list[str] = []
        self.computing: list[str] = []
        self.ops = 0
        self._numbers: dict[Any, int] = {}
        self._at: tuple[str, Where | None] = ("", None)

    def read(self, node: Any) -> None:
        self._numbers[node] = len(self._numbers)
        if node.op == "placeholder":
            self.lines.append(f"input {_type_text(value_of(node))}")
            return
        if node.op == "output":
            self.lines += [f"gives {_type_text(value_of(source))}" for source in node.all_input_nodes]
        name = op_name(node.target)
        self._at = (name, userline.of_node(node))
        arguments = [self._argument(a, f"argument {i}") for i, a in enumerate(node.args)]
        arguments += [f"{key}={self._argument(a, key)}" for key, a in node.kwargs.items()]
        self.lines.append(f"{node.op} {self._target(node)}({', '.join(arguments)})")
        if node.op.startswith("call_"):
            self.ops += 1
            self.op_names.append(name)
            if type(value_of(node)).__name__ not in ("SymInt", "SymBool", "Size", "int"):
                self.computing.append(name)

    def _target(self, node: Any) -> str:
        """The op and nothing but it: `torch.mul` is not `operator.mul`, nor one overload another."""
        target = node.target
        module, overload = getattr(target, "__module__", ""), getattr(target, "_overloadname", "")
        return f"{module}.{op_name(target)}.{overload}"

    def _argument(self, value: Any, place: str) -> str:
        if _is_node(value):
            return f"%{self._numbers[value]}"
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(self._argument(v, place) for v in value)}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k}: {self._argument(v, place)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice{self._argument((value.start, value.stop, value.step), place)}"
        if type(value) in (int, float, str):
            op, where = self._at
            self.constants.append(Constant(op, place, repr(value), _line(where), where))
            return f"<{type(value).__name__}>"
        return _OBJECT_ADDRESS.sub("", repr(value))


def _type_text(value: Any) -> str:
    if not hasattr(value, "dtype"):
        return type(value).__name__
    strides = getattr(value, "stride", None)
    layout = strides() if callable(strides) and not value.is_sparse else ""
    return f"{tuple(value.shape)} {layout} {value.dtype} {value.device} {value.requires_grad}"


def _line(where: Where | None) -> str:
    return "" if where is None else f" at {where.file.rsplit('/', 1)[-1]}:{where.line}"
