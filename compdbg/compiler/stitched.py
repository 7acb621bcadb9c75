"""The pieces of one graph chained to one callable, with all that a replay plan wants to know."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from compdbg.compiler.codegen import chain_code
from compdbg.compiler.pieces import Reference, Split

Runnable = Callable[..., Sequence[Any]]


class Stitched:
    """`stitched(*graph_inputs) -> outputs`; `pieces` are called by name, in the order of `graph`."""

    def __init__(self, split: Split, pieces: Mapping[str, Any], name: str) -> None:
        self.pieces = dict(pieces)
        self.graph = _chain_graph(split)
        self.code = chain_code(split, "chain")
        self.name = name
        called = {piece: getattr(what, "forward", what) for piece, what in self.pieces.items()}
        self.run: Runnable = self.code.build(**called)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        return self.run(*inputs)


def _chain_graph(split: Split) -> fx.Graph:
    """The chain as a graph of `call_module` nodes."""
    graph = fx.Graph()
    values = {name: graph.placeholder(name) for name in split.inputs}
    for piece in split.pieces:
        call = graph.call_module(piece.name, tuple(values[name] for name in piece.inputs))
        for i, name in enumerate(piece.outputs):
            values[name] = graph.call_function(operator.getitem, (call, i))
    graph.output(_resolved(split.outputs, values))
    return graph


def _resolved(outputs: Any, values: Mapping[str, fx.Node]) -> Any:
    if isinstance(outputs, Reference):
        return values[outputs.name]
    if isinstance(outputs, (list, tuple)):
        return tuple(_resolved(item, values) for item in outputs)
    return outputs
