"""Works out a graph's `DynamicSpec` from the symbols of its trace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
import torch
from torch import fx

from compdbg.compiler.borders import WEIGHT, size_inputs, value_of
from compdbg.compiler.dynamic_spec import BatchDim, DynamicInput, DynamicSpec, SizeInput, SizeSource
from compdbg.compiler.effects import written_inputs

_ARGUMENT = re.compile(r"^L\['(\w+)'\]")
_LOCAL = re.compile(r"^[LG]\['(\w+)'\]")
_ENTRY = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")


class FirstDim(NamedTuple):
    """The first dimension that varies of one marked argument, and its size in the trace."""

    argument: str
    dim: int
    size: int


def batch_symbols(graph: fx.Graph, marked: Sequence[FirstDim]) -> frozenset[sympy.Symbol]:
    """The symbols that are the batch size.

    The first marked argument's first dimension is it; so are the first dimensions of other marked
    arguments that had the same size when the graph was traced.
    """
    found: frozenset[sympy.Symbol] = frozenset()
    batch: int | None = None
    for first in marked:
        symbols = frozenset().union(
            *(_symbols_at(node, first) for node in graph.find_nodes(op="placeholder"))
        )
        if symbols and batch in (None, first.size):
            batch = first.size
            found |= symbols
    return found


def _symbols_at(node: fx.Node, first: FirstDim) -> frozenset[sympy.Symbol]:
    value = value_of(node)
    if not isinstance(value, torch.Tensor) or argument_of(node) != first.argument:
        return frozenset()
    if not -value.ndim <= first.dim < value.ndim:
        return frozenset()
    size = value.shape[first.dim]
    return frozenset(size.node.expr.free_symbols) if isinstance(size, torch.SymInt) else frozenset()


def source_of(node: fx.Node) -> str:
    """Where an input comes from, as Dynamo writes it: `L['x']`, `L['self']._modules[...]`."""
    source = getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def sources_of_sizes(graph: fx.Graph) -> dict[str, str]:
    """Where each symbol's size comes from, by the symbol's name; of unbacked ones torch keeps no source."""
    return {str(symbol): source_of(node) for symbol, node in size_inputs(graph).items()}


def readable_name(node: fx.Node) -> str:
    """An input as its program would write it: `self.layers.1.weight`, `kv.size()[1]`."""
    source = _ENTRY.sub(r".\1", source_of(node))
    return _LOCAL.sub(r"\1", source) or node.name


def argument_of(node: fx.Node) -> str | None:
    """The argument of the call that an input is, or is part of."""
    found = _ARGUMENT.match(source_of(node))
    return found[1] if found else None


def spec_of(graph: fx.Graph, batch: frozenset[sympy.Symbol]) -> DynamicSpec:
    """Where the batch size stands in the inputs and outputs of a graph."""
    inputs = graph.find_nodes(op="placeholder")
    names = tuple(readable_name(node) for node in inputs)
    written = written_inputs(graph)
    reader = _Reader(batch)
    sizes = tuple(reader.sizes(inputs))
    tensors = tuple(reader.tensors(inputs))
    returned = [value_of(n) if isinstance(n, fx.Node) else n for n in _flat(graph.output_node().args[0])]
    outputs = tuple(reader.dims("the output", v) for v in returned if not isinstance(v, torch.SymInt))
    return DynamicSpec(
        size=_source(sizes, tensors),
        size_inputs=sizes,
        inputs=tensors,
        outputs=outputs,
        paddable=not reader.odd,
        why=reader.odd,
        static=frozenset(i for i, node in enumerate(inputs) if is_static(node)),
        mutated=frozenset(i for i, node in enumerate(inputs) if node.name in written),
        input_names=names,
    )


def is_static(node: fx.Node) -> bool:
    """A parameter or a registered buffer of the model."""
    source = source_of(node)
    return (
        "._parameters[" in source or "._buffers[" in source or isinstance(value_of(node), torch.nn.Parameter)
    )


def mark_weights(graph: fx.Graph) -> None:
    """Note on the inputs which of them are weights: what is worked out from them stays as it is."""
    written = written_inputs(graph)
    for node in graph.find_nodes(op="placeholder"):
        if is_static(node) and node.name not in written:
            node.meta[WEIGHT] = True


def _source(sizes: Sequence[SizeInput], tensors: Sequence[DynamicInput]) -> SizeSource | None:
    plain = next((size for size in sizes if size.multiple == 1), None)
    if plain is not None:
        return SizeSource(plain.index)
    for tensor in tensors:
        dim = next((dim for dim in tensor.dims if dim.multiple == 1), None)
        if dim is not None:
            return SizeSource(tensor.index, dim.dim)
    return None


def _flat(output: Any) -> Iterable[Any]:
    return output if isinstance(output, (list, tuple)) else [output]


class _Reader:
    """Reads multiples of the batch size; `odd` says which size is none, the first found."""

    def __init__(self, batch: frozenset[sympy.Symbol]) -> None:
        self._batch = batch
        self._one: Mapping[sympy.Symbol, sympy.Symbol] = dict.fromkeys(
            batch, sympy.Symbol("n", positive=True)
        )
        self.odd = ""

    def sizes(self, inputs: Sequence[fx.Node]) -> Iterable[SizeInput]:
        for index, node in enumerate(inputs):
            value = value_of(node)
            if isinstance(value, torch.SymInt):
                multiple = self._multiple(node.name, value)
                if multiple:
                    yield SizeInput(index, multiple)

    def tensors(self, inputs: Sequence[fx.Node]) -> Iterable[DynamicInput]:
        for index, node in enumerate(inputs):
            dims = self.dims(node.name, value_of(node))
            if dims:
                yield DynamicInput(index, dims)

    def dims(self, name: str, value: Any) -> tuple[BatchDim, ...]:
        if not isinstance(value, torch.Tensor):
            return ()
        multiples = [(dim, self._multiple(name, size)) for dim, size in enumerate(value.shape)]
        return tuple(BatchDim(dim, multiple) for dim, multiple in multiples if multiple)

    def _multiple(self, name: str, size: Any) -> int:
        """k where the size is k times the batch size; 0 where it does not depend on it, or oddly."""
        if not isinstance(size, torch.SymInt):
            return 0
        expr = size.node.expr
        if not expr.free_symbols & self._batch:
            return 0
        (one,) = set(self._one.values())
        ratio = sympy.simplify(expr.xreplace(self._one) / one)
        if ratio.is_Integer and ratio > 0:
            return int(ratio)
        self.odd = self.odd or f"{name} has a size {expr}, which is no multiple of the batch size"
        return 0
