"""`Backend`: what Dynamo hands a graph to. Splits it, has its pieces compiled, chains them again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import sympy
from torch import fx

from compdbg import probe
from compdbg.compiler.borders import value_of
from compdbg.compiler.compiled_model import CompiledModel
from compdbg.compiler.compiler_interface import Runnable, make_compiler
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.pieces import Piece, Split, boundaries, split_graph
from compdbg.compiler.piecewise_backend import PiecewiseBackend
from compdbg.compiler.ranges import STATIC, Range, compile_ranges
from compdbg.compiler.refake import made_ready
from compdbg.compiler.spec_of import FirstDim, batch_symbols, is_static, spec_of
from compdbg.compiler.splitting import COMPILED
from compdbg.events import Piece as PieceEvent
from compdbg.events import PieceCompiled


class Backend:
    """One graph's compilation: `backend(graph, example_inputs) -> CompiledModel`."""

    compiler_name = "compdbg"

    def __init__(self, name: str, config: CompilationConfig, marked: Sequence[FirstDim]) -> None:
        self.name = name
        self.config = config
        self.marked = marked
        self.manager = CompilerManager(name, config)

    def __call__(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledModel:
        graph = module.graph
        batch = batch_symbols(graph, self.marked)
        spec = spec_of(graph, batch)
        static = {node.name for node in graph.find_nodes(op="placeholder") if is_static(node)}
        splitting_ops = [] if self.config.use_inductor_graph_partition else self.config.splitting_ops or []
        split = split_graph(module, splitting_ops)
        self._report(split)
        pieces = {piece.name: self._piece(piece, batch) for piece in split.pieces}
        return CompiledModel(self.name, self.config, split, pieces, spec, frozenset(static))

    def _piece(self, piece: Piece, batch: frozenset[sympy.Symbol]) -> Any:
        if piece.kind != COMPILED:
            return piece.module
        sizes = _size_positions(piece, batch)
        ranges = compile_ranges(self.config) if sizes else [STATIC]
        runnables = {each: self.manager.compile(piece, batch, each) for each in ranges}
        return PiecewiseBackend(piece.name, runnables, sizes[0] if sizes else None, sizes[1:])

    def _report(self, split: Split) -> None:
        if not probe.active():
            return
        for piece in split.pieces:
            values = {node.name: value_of(node) for node in piece.module.graph.nodes}
            ins = [node.name for node in piece.module.graph.find_nodes(op="placeholder")]
            outs = [node.name for node in piece.module.graph.output_node().args[0]]
            probe.emit(
                PieceEvent(
                    graph=self.name,
                    piece=piece.name,
                    piece_kind=piece.kind,
                    ops=piece.ops,
                    split_op=", ".join(dict.fromkeys(piece.split_ops)) or None,
                    inputs=boundaries(ins, values),
                    outputs=boundaries(outs, values),
                )
            )


class CompilerManager:
    """Has pieces compiled, or loads them."""

    def __init__(self, name: str, config: CompilationConfig) -> None:
        self.name = name
        self.config = config
        self.compiler = make_compiler(config)

    def compile(self, piece: Piece, batch: frozenset[sympy.Symbol], compile_range: Range) -> Runnable:
        started = time.perf_counter()
        shapes = self.config.dynamic_shapes_config.type
        ready = made_ready(piece.module, batch, compile_range, shapes, {})
        runnable = self.compiler.compile(ready.module, ready.inputs, self._options())
        probe.emit(
            PieceCompiled(
                graph=self.name,
                piece=piece.name,
                range=str(compile_range),
                duration_ms=(time.perf_counter() - started) * 1e3,
                backend=self.compiler.name,
            )
        )
        return runnable

    def _options(self) -> dict[str, Any]:
        return dict(self.config.inductor_compile_config) if self.compiler.uses_inductor else {}


def _size_positions(piece: Piece, batch: frozenset[sympy.Symbol]) -> list[int]:
    """Inputs of a piece that are the batch size itself."""
    found = []
    for index, node in enumerate(piece.module.graph.find_nodes(op="placeholder")):
        value = value_of(node)
        if hasattr(value, "node") and value.node.expr in batch:
            found.append(index)
    return found
