"""Equal pieces are compiled once, also where they differ by an integer such as a layer's index.

Such an integer becomes an input, as a symbol: as a plain int it would be baked into what is
compiled, and every twin would run with the first one's. A symbol on which the compiler came to
depend (a guard, a specialisation) is not shared with pieces for which that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
from msgspec import Struct
from torch import fx

from compdbg.compiler.piece_text import Constant, PieceText, piece_text
from compdbg.compiler.pieces import Piece
from compdbg.compiler.refake import Ready
from compdbg.compiler.splitting import line_of, operator_name
from compdbg.events import Apart


class Family(Struct):
    """Pieces that one compile serves. `lifted` are the constants that became inputs, by position."""

    members: list[Piece]
    texts: list[PieceText]
    lifted: frozenset[int] = frozenset()
    differs_by: str | None = None
    """The constant for which the family is not one with an earlier one."""
    related_to: str | None = None
    """The first piece of that earlier family."""
    apart: list[Apart] = []
    """All constants that the two have with other values."""

    @property
    def head(self) -> Piece:
        return self.members[0]

    def constants_of(self, index: int) -> tuple[int, ...]:
        """The values of the lifted constants in one member."""
        return tuple(self.texts[index].constants[i].value for i in sorted(self.lifted))

    @property
    def stable(self) -> bool:
        """Whether the text means the same in another process."""
        return all(text.stable for text in self.texts)

    def text(self) -> str:
        return self.texts[0].full(self.lifted)

    def stands_apart_from(self, other: Family, piece: Piece, text: PieceText) -> None:
        """Say by which constants `piece`, the first of this family, is not one of the other's."""
        self.related_to = other.head.name
        self.differs_by = difference(other.texts[0], text)
        nodes = {node.name: node for node in piece.module.graph.nodes}
        pairs = zip(other.texts[0].constants, text.constants, strict=True)
        differing = [(a, b) for a, b in pairs if not _same(a, b)]
        fixed = [(a, b) for a, b in differing if not b.liftable] or differing
        self.apart = [
            Apart(
                op=operator_name(nodes[mine.node]),
                argument=_place(mine.path),
                here=repr(mine.value)[:100],
                there=repr(theirs.value)[:100],
                where=line_of(nodes[mine.node]),
            )
            for theirs, mine in fixed
        ]


def families(pieces: Sequence[Piece], batch: frozenset[sympy.Symbol]) -> list[Family]:
    """Group pieces that can be compiled as one, in the order of their first members."""
    by_text: dict[str, list[Family]] = {}
    found: list[Family] = []
    for piece in pieces:
        text = piece_text(piece, batch)
        relatives = by_text.setdefault(text.text, [])
        family = next((f for f in relatives if _can_join(f, text)), None)
        if family is None:
            family = Family(members=[], texts=[])
            if relatives:
                family.stands_apart_from(relatives[0], piece, text)
            relatives.append(family)
            found.append(family)
        family.members.append(piece)
        family.texts.append(text)
    for family in found:
        family.lifted = frozenset(varying(family.texts))
    return found


def _can_join(family: Family, text: PieceText) -> bool:
    """All constants that differ from the family's can become inputs."""
    pairs = zip(family.texts[0].constants, text.constants, strict=True)
    return all((a.liftable and type(a.value) is type(b.value)) or _same(a, b) for a, b in pairs)


def _same(a: Constant, b: Constant) -> bool:
    return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)


def difference(one: PieceText, other: PieceText) -> str:
    """The constant for which two pieces that are otherwise equal can't be one."""
    pairs = [(a, b) for a, b in zip(one.constants, other.constants, strict=True) if not _same(a, b)]
    a, b = next(((a, b) for a, b in pairs if not a.liftable), pairs[0])
    return f"{b.node}: {b.value!r} where {a.node} has {a.value!r}"


def _place(path: tuple[Any, ...]) -> str:
    """`argument 1`, or the keyword's name."""
    kind, *steps = path
    return str(steps[0]) if kind == "kwargs" else f"argument {steps[0]}"


def varying(texts: Sequence[PieceText]) -> Iterable[int]:
    """Positions of the constants that are not the same in all."""
    for i, first in enumerate(texts[0].constants):
        if any(not _same(first, text.constants[i]) for text in texts[1:]):
            yield i


def lift(piece: Piece, text: PieceText, lifted: frozenset[int]) -> tuple[Piece, dict[str, int]]:
    """The piece with these constants as further inputs, and their values by input name."""
    if not lifted:
        return piece, {}
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    output = graph.graph_copy(piece.module.graph, copies)
    by_name = {node.name: node for node in piece.module.graph.nodes}
    last = [copies[node] for node in piece.module.graph.find_nodes(op="placeholder")][-1:]
    values: dict[str, int] = {}
    for number, index in enumerate(sorted(lifted)):
        constant = text.constants[index]
        name = f"lifted_{number}"
        anchor = last[-1] if last else graph._root
        with graph.inserting_after(anchor):
            placeholder = graph.placeholder(name)
        last.append(placeholder)
        node = copies[by_name[constant.node]]
        _put(node, constant.path, placeholder)
        values[placeholder.name] = constant.value
    graph.output(output)
    module = fx.GraphModule(piece.module, graph)
    return Piece(
        name=piece.name, kind=piece.kind, module=module, inputs=piece.inputs, outputs=piece.outputs
    ), values


def _put(node: fx.Node, path: tuple[Any, ...], value: fx.Node) -> None:
    """Replace one place in a node's arguments."""
    where, *steps = path
    if where == "args":
        node.args = _replaced(node.args, steps, value)
    else:
        node.kwargs = _replaced(dict(node.kwargs), steps, value)


def _replaced(container: Any, steps: Sequence[Any], value: Any) -> Any:
    if not steps:
        return value
    step, *rest = steps
    if isinstance(container, slice):
        parts = [container.start, container.stop, container.step]
        parts[step] = _replaced(parts[step], rest, value)
        return slice(*parts)
    if isinstance(container, dict):
        return {**container, step: _replaced(container[step], rest, value)}
    items = list(container)
    items[step] = _replaced(items[step], rest, value)
    return type(container)(items) if isinstance(container, (list, tuple)) else items


def assumptions(ready: Ready) -> list[sympy.Basic]:
    """What a compile came to assume about lifted constants: guards, and fixed values as equations."""
    symbols = {constant.node.expr for constant in ready.lifted}
    found = [guard.expr for guard in ready.guards if guard.expr.free_symbols & symbols]
    fixed = ready.environment.replacements
    return [
        *found,
        *(sympy.Eq(symbol, fixed[symbol], evaluate=False) for symbol in symbols if symbol in fixed),
    ]


def holds(assumed: Iterable[sympy.Basic], ready: Ready, constants: Sequence[int]) -> bool:
    """Whether the assumptions hold for a twin with these constants; unknown is no."""
    values = {c.node.expr: sympy.Integer(v) for c, v in zip(ready.lifted, constants, strict=True)}
    return all(expr.xreplace(values).simplify() is sympy.true for expr in assumed)
