"""What the trace knows of its sizes, for the compile of each piece.

A piece is compiled in a shape environment of its own. Left to itself it would decide again what the
trace has decided, such as a branch on the batch size inside an operator, and maybe otherwise. So it
gets the trace's bounds, and a hint for which all that the trace assumed is true.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
import torch
from msgspec import Struct
from torch import fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from compdbg.compiler.borders import value_of
from compdbg.compiler.ranges import STATIC, UNBOUNDED, Range

DEFAULT_HINT = 32
"""The size that tuning decisions assume, where nothing speaks against it, whatever the first call's was."""
_FURTHER = 64
"""So many sizes beyond the usual ones are tried for a hint."""
_ANY = Range(0, UNBOUNDED)


class TracedSizes(Struct, frozen=True):
    """The symbols that are the batch size, and what the trace assumes of all symbols."""

    batch: frozenset[sympy.Symbol] = frozenset()
    bounds: dict[sympy.Symbol, Range] = {}
    first: dict[sympy.Symbol, int] = {}
    """Sizes while tracing; all guards hold for these."""
    guards: tuple[Any, ...] = ()
    prefer_first: bool = False
    """Take the size while tracing as the hint, although others would do."""

    @property
    def first_batch(self) -> int | None:
        """The batch size while tracing."""
        return next((self.first[s] for s in sorted(self.batch, key=str) if s in self.first), None)

    def bounds_of(self, symbol: sympy.Symbol) -> Range:
        """The sizes of one symbol for which the trace is good."""
        return self.bounds.get(symbol, _ANY)

    def narrowed(self, compile_range: Range) -> Range | None:
        """The part of a range of batch sizes for which the trace is good; None where that is nothing."""
        if compile_range.is_single and compile_range != STATIC:
            return compile_range
        known = [_ANY if compile_range == STATIC else compile_range, *map(self.bounds_of, self.batch)]
        low, high = max(each.low for each in known), min(each.high for each in known)
        return Range(low, high) if low <= high else None

    def batch_hint(self, compile_range: Range) -> int:
        """A batch size in the range for which the guards of the trace hold, if there is one."""
        return self._hint(self.batch, self.narrowed(compile_range) or compile_range)

    def hint_of(self, symbol: sympy.Symbol) -> int:
        """The same for another symbol."""
        return self._hint(frozenset([symbol]), self.bounds_of(symbol))

    def _hint(self, symbols: frozenset[sympy.Symbol], within: Range) -> int:
        own = [guard for guard in self.guards if guard.free_symbols <= symbols]
        mixed = any(guard.free_symbols & symbols for guard in self.guards if guard not in own)
        usual = max(2, min(DEFAULT_HINT, within.high)) if within.low <= DEFAULT_HINT else within.low
        first = [size for s in symbols if (size := self.first.get(s, 0)) in within and size > 1]
        nearby = range(max(2, within.low), min(within.low + _FURTHER, within.high) + 1)
        candidates = [*first, usual, *nearby] if mixed or self.prefer_first else [usual, *first, *nearby]

        def is_good(size: int) -> bool:
            values = dict.fromkeys(symbols, sympy.Integer(size))
            return all(guard.xreplace(values) == sympy.true for guard in own)

        return next(filter(is_good, candidates), usual)

    def text(self, symbols: Iterable[sympy.Symbol], compile_range: Range) -> str:
        """For a cache key: all that the compile of a piece with these symbols is told of them."""
        symbols = list(symbols)
        told = [f"{self.bounds_of(s)} like {self.hint_of(s)}" for s in symbols if s not in self.batch]
        if not self.batch.isdisjoint(symbols):
            told.insert(0, f"batch {self.narrowed(compile_range)} like {self.batch_hint(compile_range)}")
        return ", ".join(told)


def traced_sizes(graph: fx.Graph, batch: frozenset[sympy.Symbol]) -> TracedSizes:
    """Of a graph that Dynamo has traced."""
    environment = environment_of(graph)
    if environment is None:
        return TracedSizes(batch=batch)
    name = "backed_var_to_val" if hasattr(environment, "backed_var_to_val") else "var_to_val"
    return TracedSizes(
        batch=batch,
        bounds={symbol: _bounds(known) for symbol, known in environment.var_to_range.items()},
        first={symbol: int(value) for symbol, value in getattr(environment, name).items()},
        guards=tuple(guard.expr for guard in environment.guards if guard.expr.free_symbols),
    )


def environment_of(graph: fx.Graph) -> ShapeEnv | None:
    """The trace's shape environment; None for a graph without varying sizes."""
    values = (value_of(node) for node in graph.find_nodes(op="placeholder"))
    size = next((value for value in values if isinstance(value, torch.SymInt)), None)
    return None if size is None else size.node.shape_env


def _bounds(known: Any) -> Range:
    """A lower bound of 2 is what torch assumes of every size, and tells nothing."""
    low, high = (int(b) if b.is_Integer else None for b in (known.lower, known.upper))
    low = 0 if low is None or low == 2 else max(0, low)
    return Range(low, UNBOUNDED if high is None else min(high, UNBOUNDED))
