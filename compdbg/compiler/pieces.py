"""Cuts a graph into pieces that can stand alone: their inputs and outputs, and how they chain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from msgspec import Struct
from torch import fx
from torch.fx._lazy_graph_module import _make_graph_module
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from compdbg.compiler.borders import WEIGHT, size_inputs, value_of
from compdbg.compiler.contexts import State, Switcher, states
from compdbg.compiler.splitting import COMPILED, INLINED, Part, line_of, operator_name, partition
from compdbg.events import Boundary

_KEPT_META = ("example_value", "val", "stack_trace", "nn_module_stack", "custom", WEIGHT)


class Piece(Struct, kw_only=True):
    """One piece: a graph of its own, and the names in the whole graph of what goes in and out."""

    name: str
    kind: str
    module: fx.GraphModule
    inputs: list[str]
    outputs: list[str]
    split_ops: tuple[str, ...] = ()

    @property
    def placeholders(self) -> list[str]:
        return [node.name for node in self.module.graph.find_nodes(op="placeholder")]

    @property
    def weights(self) -> frozenset[int]:
        """Which inputs are parameters or buffers of the model that no call of the graph writes to."""
        inputs = self.module.graph.find_nodes(op="placeholder")
        return frozenset(i for i, node in enumerate(inputs) if WEIGHT in node.meta)

    @property
    def results(self) -> list[str]:
        return [node.name for node in self.module.graph.output_node().args[0]]

    @property
    def operators(self) -> list[str]:
        """The operators that it calls, by name, in order."""
        nodes = self.module.graph.nodes
        return [operator_name(node) for node in nodes if node.op.startswith("call")]

    @property
    def ops(self) -> int:
        """How many operators it calls."""
        return sum(node.op.startswith("call") for node in self.module.graph.nodes)


class Split(Struct, kw_only=True):
    """A graph as a chain of pieces, called in order."""

    inputs: list[str]
    pieces: list[Piece]
    outputs: Any
    """What the graph returns: its output structure with names in place of nodes."""
    returned_sizes: Piece | None = None
    """Computes the sizes that the graph returns, from its inputs: they are those of the caller's
    call, also where rows were added for the pieces."""
    returned_at: list[int] = []
    """Where among the outputs those sizes stand; the chain leaves them out."""
    kept_graphs: dict[str, bytes] = {}
    """Graphs of compiled pieces that came from a cache, as data: they are not needed to call the pieces."""

    @property
    def compiled(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.kind == COMPILED]

    @property
    def fresh(self) -> frozenset[str]:
        """Values that a splitting or inlined piece makes: at another address on every call."""
        return frozenset(name for piece in self.pieces if piece.kind != COMPILED for name in piece.outputs)


def split_graph(module: fx.GraphModule, splitting_ops: list[str]) -> Split:
    """Split a Dynamo graph at `splitting_ops`, in place; mutations keep their order."""
    graph = module.graph
    parts, late = partition(graph, splitting_ops)
    at = states(graph)
    sizes = set(size_inputs(graph).values())
    home = {node: i for i, part in enumerate(parts) for node in part.nodes}
    crossing = _crossing(graph, home)
    pieces = [_cut(module, part, f"piece_{i}", crossing, at, sizes) for i, part in enumerate(parts)]
    split = Split(
        inputs=[node.name for node in graph.find_nodes(op="placeholder")],
        pieces=pieces,
        outputs=[_reference(value) for value in graph.output_node().args[0] if not _is_size(value)],
    )
    returned = [(i, n) for i, n in enumerate(graph.output_node().args[0]) if _is_size(n)]
    if returned:
        split.returned_sizes = _sizes_piece(late, [node for _, node in returned])
        split.returned_at = [i for i, _ in returned]
    return split


def _sizes_piece(nodes: list[fx.Node], returned: list[fx.Node]) -> Piece:
    """Size expressions as a piece of their own: they take sizes only."""
    graph = fx.Graph()
    used = [source for node in nodes for source in node.all_input_nodes]
    inputs = dict.fromkeys(node for node in (*used, *returned) if node.op == "placeholder")
    copies = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in returned))
    return Piece(
        name="returned_sizes",
        kind=INLINED,
        module=_make_graph_module({}, graph),
        inputs=[node.name for node in inputs],
        outputs=[node.name for node in returned],
    )


def _is_size(value: Any) -> bool:
    return isinstance(value, fx.Node) and isinstance(value_of(value), torch.SymInt)


def _reference(value: Any) -> Any:
    return Reference(value.name) if isinstance(value, fx.Node) else value


class Reference(Struct, frozen=True):
    """The name of a value in the whole graph."""

    name: str


def _crossing(graph: fx.Graph, home: dict[fx.Node, int]) -> set[fx.Node]:
    """Values made in one piece and used in another, or returned."""
    found = set(graph.output_node().all_input_nodes)
    for node, index in home.items():
        found.update(source for source in node.all_input_nodes if home.get(source, index) != index)
    return found


def _cut(
    module: fx.GraphModule,
    part: Part,
    name: str,
    crossing: set[fx.Node],
    at: dict[fx.Node, State],
    sizes: set[fx.Node],
) -> Piece:
    inputs = _inputs_of(part.nodes, sizes)
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    attributes: dict[str, Any] = {}
    for node in inputs:
        placeholder = copies[node] = graph.placeholder(node.name)
        placeholder.meta = _meta(node)

    def copy(node: fx.Node) -> fx.Node:
        for source in node.all_input_nodes:
            if source.op == "get_attr" and source not in copies:
                attributes[str(source.target)] = attribute(module, source.target)
                copies[source] = copy(source)
        copied = graph.node_copy(node, copies.__getitem__)
        copied.meta = _meta(node)
        return copied

    switcher = Switcher(graph, copy)
    for node in part.nodes:
        if at:
            switcher.to(at[node])
        copies[node] = copy(node)
    switcher.leave()
    outputs = [node for node in part.nodes if node in crossing]
    graph.output(tuple(copies[node] for node in outputs))
    return Piece(
        name=name,
        kind=part.kind,
        module=_make_graph_module(attributes, graph, class_name=name),
        inputs=[node.name for node in inputs],
        outputs=[node.name for node in outputs],
        split_ops=part.split_ops,
    )


def _inputs_of(nodes: list[fx.Node], sizes: set[fx.Node]) -> list[fx.Node]:
    """What a piece takes: sizes first, as its users in vLLM expect, then values by first use."""
    mine = set(nodes)
    used = dict.fromkeys(
        source
        for node in nodes
        for source in node.all_input_nodes
        if source not in mine and source.op != "get_attr"
    )
    symbols = {symbol for node in used for symbol in _symbols(value_of(node))}
    needed = [node for node in sizes if value_of(node).node.expr in symbols]
    ordered = sorted(needed, key=lambda node: node.name)
    return [*ordered, *(node for node in used if node not in set(ordered))]


def symbols_of(piece: Piece) -> list[Any]:
    """The symbols in a piece's inputs, in the order of these."""
    values = map(value_of, piece.module.graph.find_nodes(op="placeholder"))
    return list(dict.fromkeys(symbol for value in values for symbol in sorted(_symbols(value), key=str)))


def _symbols(value: Any) -> Iterable[Any]:
    if isinstance(value, torch.SymInt):
        return set(value.node.expr.free_symbols)
    if isinstance(value, torch.Tensor):
        return {s for n in value.shape if isinstance(n, torch.SymInt) for s in n.node.expr.free_symbols}
    return ()


def attribute(module: fx.GraphModule, target: Any) -> Any:
    """What a `get_attr` node names."""
    value: Any = module
    for step in str(target).split("."):
        value = getattr(value, step)
    return value


def _meta(node: fx.Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in _KEPT_META if key in node.meta}


def boundaries(module: fx.GraphModule, names: Iterable[str]) -> list[Boundary]:
    """What crosses a border, as events say it."""
    nodes = {node.name: node for node in module.graph.nodes}
    return [_boundary(name, nodes[name]) for name in names]


def _boundary(name: str, node: fx.Node) -> Boundary:
    value = value_of(node)
    unbacked = sorted(str(symbol) for symbol in free_unbacked_symbols(value))
    where = line_of(node) if unbacked or not isinstance(value, torch.Tensor) else None
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        shape = [str(n) for n in value.shape]
        return Boundary(name=name, shape=shape, dtype=dtype, unbacked=unbacked, where=where)
    return Boundary(name=name, type=type(value).__name__, unbacked=unbacked, where=where)
