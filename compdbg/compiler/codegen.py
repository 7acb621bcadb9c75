"""Straight-line Python for graphs that run as they are, and for the chain of pieces.

Generated code calls neither modules nor an interpreter: a chain of 33 pieces costs 33 calls.
"""

from __future__ import annotations

import builtins
import linecache
import math
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from torch import fx

from compdbg.compiler.pieces import Reference, Split, attribute


class Code(Struct, kw_only=True):
    """The source of one function, and the objects that its names `_0`, `_1`, ... stand for."""

    name: str
    source: str
    table: list[Any] = []

    def build(self, **names: Any) -> Callable[..., Any]:
        """The function, with further global names bound."""
        file = f"<compdbg {self.name}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(True), file)
        scope: dict[str, Any] = {"__builtins__": builtins, **names}
        scope.update((f"_{i}", value) for i, value in enumerate(self.table))
        exec(compile(self.source, file, "exec"), scope)
        return scope[self.name]  # type: ignore[no-any-return]


class _Writer:
    """Writes expressions, and collects what they name."""

    def __init__(self) -> None:
        self.table: list[Any] = []
        self._index: dict[int, int] = {}

    def named(self, value: Any) -> str:
        index = self._index.get(id(value))
        if index is None:
            index = self._index[id(value)] = len(self.table)
            self.table.append(value)
        return f"_{index}"

    def text(self, value: Any) -> str:
        match value:
            case fx.Node() | Reference():
                return str(value.name)
            case list():
                return f"[{self._texts(value)}]"
            case tuple() if not hasattr(value, "_fields"):
                return f"({self._texts(value)}{',' if len(value) == 1 else ''})"
            case dict():
                return "{" + ", ".join(f"{self.text(k)}: {self.text(v)}" for k, v in value.items()) + "}"
            case slice():
                return f"slice({self._texts([value.start, value.stop, value.step])})"
        return repr(value) if _is_literal(value) else self.named(value)

    def _texts(self, values: Iterable[Any]) -> str:
        return ", ".join(self.text(value) for value in values)

    def call(self, node: fx.Node) -> str:
        words = [self.text(argument) for argument in node.args]
        words += [f"{key}={self.text(value)}" for key, value in node.kwargs.items()]
        if node.op == "call_method":
            return f"{words[0]}.{node.target}({', '.join(words[1:])})"
        return f"{self.named(node.target)}({', '.join(words)})"


def _is_literal(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in (int, bool, str, bytes) or value is None or value is Ellipsis


def graph_code(module: fx.GraphModule, name: str) -> Code:
    """A graph as a function of its inputs, each value dropped after its last use."""
    writer = _Writer()
    inputs: list[str] = []
    lines: list[str] = []
    last = _last_users(module.graph)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            inputs.append(node.name)
        elif node.op == "output":
            lines.append(f"    return {writer.text(node.args[0])}")
        elif node.op == "get_attr":
            lines.append(f"    {node.name} = {writer.named(attribute(module, node.target))}")
        else:
            lines.append(f"    {node.name} = {writer.call(node)}")
            dead = [source.name for source in last.get(node, ())]
            if dead:
                lines.append(f"    del {', '.join(dead)}")
    return Code(name=name, source=_function(name, inputs, lines), table=writer.table)


def chain_code(split: Split, name: str) -> Code:
    """The chain of pieces as a function of the graph's inputs; pieces are bound as global names."""
    writer = _Writer()
    lines: list[str] = []
    kept = _names(split.outputs)
    last: dict[str, int] = {}
    for i, piece in enumerate(split.pieces):
        last.update(dict.fromkeys((*piece.inputs, *piece.outputs), i))
    for i, piece in enumerate(split.pieces):
        call = f"{piece.name}({', '.join(piece.inputs)})"
        lines.append(f"    {', '.join(piece.outputs)}, = {call}" if piece.outputs else f"    {call}")
        dead = [n for n in dict.fromkeys((*piece.inputs, *piece.outputs)) if last[n] == i and n not in kept]
        if dead:
            lines.append(f"    del {', '.join(dead)}")
    lines.append(f"    return {writer.text(split.outputs)}")
    return Code(name=name, source=_function(name, split.inputs, lines), table=writer.table)


def _function(name: str, inputs: list[str], lines: list[str]) -> str:
    return f"def {name}({', '.join(inputs)}):\n" + "\n".join(lines) + "\n"


def _names(outputs: Any) -> set[str]:
    if isinstance(outputs, Reference):
        return {outputs.name}
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    return set().union(*map(_names, outputs)) if isinstance(outputs, (list, tuple)) else set()


def _last_users(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    found: dict[fx.Node, list[fx.Node]] = {}
    seen: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        for source in node.all_input_nodes:
            if source not in seen:
                seen.add(source)
                if node.op != "output":
                    found.setdefault(node, []).append(source)
    return found
