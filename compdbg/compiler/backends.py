"""`Backend`: what Dynamo hands a graph to. Splits it, has its pieces compiled, chains them again."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sympy
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges

from compdbg import probe
from compdbg.compiler.borders import value_of
from compdbg.compiler.cache_factors import operator_factors
from compdbg.compiler.compiled_model import CompiledModel
from compdbg.compiler.compiler_manager import CompilerManager
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.guard_data import Condition, shape_conditions
from compdbg.compiler.piece_guards import Applies, conditions
from compdbg.compiler.pieces import Piece, Split, boundaries, split_graph, symbols_of
from compdbg.compiler.piecewise_backend import Compiled, PiecewiseBackend
from compdbg.compiler.ranges import STATIC, Range, compile_ranges
from compdbg.compiler.spec_of import (
    FirstDim,
    batch_symbols,
    is_static,
    mark_weights,
    sources_of_sizes,
    spec_of,
)
from compdbg.compiler.splitting import unmatched
from compdbg.compiler.traced_sizes import TracedSizes, environment_of, traced_sizes
from compdbg.compiler.twins import Family, families, varying
from compdbg.events import Piece as PieceEvent
from compdbg.events import SplitOpUnmatched

log = logging.getLogger("compdbg.compiler")


class Backend:
    """One graph's compilation: `backend(graph, example_inputs) -> CompiledModel`."""

    compiler_name = "compdbg"

    def __init__(
        self,
        name: str,
        config: CompilationConfig,
        marked: Sequence[FirstDim],
        what: str = "",
    ) -> None:
        self.name = name
        self.config = config
        self.marked = marked
        self.manager = CompilerManager(name, config, what or name)
        self.called = False
        self.result: CompiledModel | None = None
        self.shapes: list[Condition] = []
        """Guards on sizes: those that the trace added, then those of the compiles of pieces."""
        self._unmatched: list[SplitOpUnmatched] = []

    def __call__(self, module: fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledModel:
        self.called = True
        graph = module.graph
        batch = batch_symbols(graph, self.marked)
        spec = spec_of(graph, batch)
        mark_weights(graph)
        static = frozenset(node.name for node in graph.find_nodes(op="placeholder") if is_static(node))
        splitting_ops = [] if self.config.use_inductor_graph_partition else self.config.splitting_ops or []
        self._check_names(graph)
        operators = operator_factors([module])
        environment = environment_of(graph)
        traced = traced_sizes(graph, batch)
        sources = sources_of_sizes(graph)
        if environment is not None:
            self.shapes = shape_conditions(environment)
        split = split_graph(module, splitting_ops)
        found = families(split.compiled, batch)
        compiled: dict[str, PiecewiseBackend] = {}
        try:
            for family in list(found):
                compiled.update(self._compile(family, traced, found))
        finally:
            reports = self._reports(split, found)
            for report, piece in zip(reports, split.pieces, strict=True):
                text = probe.payload(piece.module.graph.python_code("self").src) if probe.active() else None
                probe.emit(msgspec.structs.replace(report, text=text))
        self.shapes += self._piece_conditions(found, compiled, sources)
        self.result = CompiledModel(
            self.name, self.config, split, compiled, spec, static, self.manager.statics
        )
        self.result.operators = operators
        self.result.reports = [*reports, *self._unmatched]
        if environment is not None and self.config.dynamic_shapes_config.evaluate_guards:
            _allow_zero_and_one(environment)
        return self.result

    def _compile(
        self, family: Family, traced: TracedSizes, found: list[Family]
    ) -> dict[str, PiecewiseBackend]:
        """Compile a family; members for which what was assumed does not hold are compiled apart."""
        sizes = _size_positions(family.head, traced.batch)
        ranges = compile_ranges(self.config) if sizes else [STATIC]
        ranges = [each for each in ranges if traced.narrowed(each) is not None]
        versions = {each: self.manager.compile(family, traced, each) for each in ranges}
        fits = [self._fits(versions, family.constants_of(i)) for i in range(len(family.members))]
        made: dict[str, PiecewiseBackend] = {}
        for i, piece in enumerate(family.members):
            if fits[i]:
                made[piece.name] = PiecewiseBackend(piece.name, versions, sizes, family.constants_of(i))
                if i > 0:
                    self.manager.reuse(piece, versions)
        if not all(fits):
            rest = _without(family, fits)
            found.append(rest)
            made |= self._compile(rest, traced, found)
        return made

    def _fits(self, versions: Mapping[Range, Compiled], constants: tuple[int, ...]) -> bool:
        return all(compiled.holds_for(constants) for compiled in versions.values())

    def _piece_conditions(
        self, found: Sequence[Family], compiled: Mapping[str, PiecewiseBackend], sources: Mapping[str, str]
    ) -> list[Condition]:
        """What compiling the pieces came to assume about sizes, each once."""
        added: dict[str, Condition] = {}
        for head in (family.head for family in found):
            versions = compiled[head.name].versions
            others = tuple(each.low for each in versions if each.is_single and each != STATIC)
            for each, version in versions.items():
                applies = Applies(each, others, tuple(self.config.cudagraph_capture_sizes or ()))
                some = conditions(version.guards, symbols_of(head), sources, applies)
                added.update((condition.text, condition) for condition in some)
        return list(added.values())

    def _check_names(self, graph: fx.Graph) -> None:
        """Say which splitting operators do not occur; the usual cause is a name's spelling."""
        wanted = self.config.splitting_ops or []
        found = unmatched(graph, wanted)
        lacking = {name.name for name in found}
        for name in found:
            event = SplitOpUnmatched(
                graph=self.name,
                name=name.name,
                nearest=name.nearest,
                exists=name.exists,
                matched=[each for each in wanted if each not in lacking],
            )
            self._unmatched.append(event)
            probe.emit(event)
            hint = f"; did you mean {name.nearest!r}?" if name.nearest else ""
            if not name.exists:
                log.warning("%s: splitting_ops: no operator %r in the graph%s", self.name, name.name, hint)

    def _reports(self, split: Split, found: Sequence[Family]) -> list[PieceEvent]:
        """What is said of each piece, in order."""
        family_of = {piece.name: family for family in found for piece in family.members}
        reports = []
        for piece in split.pieces:
            family = family_of.get(piece.name)
            twin = family.head.name if family is not None and family.head is not piece else None
            apart = family if twin is None else None
            reports.append(
                PieceEvent(
                    graph=self.name,
                    piece=piece.name,
                    piece_kind=piece.kind,
                    ops=piece.ops,
                    split_op=", ".join(dict.fromkeys(piece.split_ops)) or None,
                    shared_with=twin,
                    differs_by=apart.differs_by if apart is not None else None,
                    related_to=apart.related_to if apart is not None else None,
                    apart=apart.apart if apart is not None else [],
                    op_counts=dict(Counter(piece.operators)),
                    inputs=boundaries(piece.module, piece.placeholders),
                    outputs=boundaries(piece.module, piece.results),
                )
            )
        return reports


def _without(family: Family, fits: Sequence[bool]) -> Family:
    """The members that do not fit, as a family of their own."""
    alike = [i for i, fit in enumerate(fits) if not fit]
    texts = [family.texts[i] for i in alike]
    rest = Family(
        members=[family.members[i] for i in alike],
        texts=texts,
        lifted=frozenset(varying(texts)) if len(alike) < len(fits) else frozenset(),
    )
    rest.stands_apart_from(family, rest.head, texts[0])
    return rest


def _size_positions(piece: Piece, batch: frozenset[sympy.Symbol]) -> list[int]:
    """Inputs of a piece that are the batch size itself."""
    values = [value_of(node) for node in piece.module.graph.find_nodes(op="placeholder")]
    return [i for i, v in enumerate(values) if isinstance(v, torch.SymInt) and v.node.expr in batch]


def _allow_zero_and_one(environment: ShapeEnv) -> None:
    """Guards on sizes are to be evaluated: take out those that torch adds for every size.

    A backed size is assumed to be at least 2 whether or not anything depends on it; with that
    guard, every batch of one would be a violation.
    """
    for symbol, bounds in list(environment.var_to_range.items()):
        if bounds.lower == 2:
            environment.var_to_range[symbol] = ValueRanges(0, bounds.upper)
