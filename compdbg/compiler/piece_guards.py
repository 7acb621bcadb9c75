"""Guards on sizes that compiling one piece added: dropped like those of the trace, and told like them.

Inductor and AOTAutograd may decide by a size too. The trace knows nothing of that, and what was
compiled is right only for sizes for which the decision is the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sympy
import torch
from msgspec import Struct

from compdbg.compiler.guard_check import expression
from compdbg.compiler.guard_data import Condition
from compdbg.compiler.guard_sources import CannotFollow
from compdbg.compiler.ranges import UNBOUNDED, Range
from compdbg.compiler.refake import Ready
from compdbg.compiler.traced_sizes import TracedSizes

_TORCH = str(Path(torch.__file__).parent) + os.sep
_SAMPLES = 64
_NAME = re.compile(r"\bz(\d+)\b")


class SizeGuard(Struct, frozen=True):
    """`expr` is over z0, z1, ...: the piece's symbols, in the order of its inputs."""

    expr: str
    layer: str
    """`aot` or `inductor`."""
    of_batch: bool = False
    """Only the batch size is in it."""


def added_guards(
    ready: Ready, symbols: Sequence[sympy.Symbol], traced: TracedSizes, compile_range: Range
) -> tuple[SizeGuard, ...]:
    """What a compile assumed about sizes that neither its range nor the trace says already."""
    here = {new: old for new, old in ready.names.items() if old in symbols}
    names = {new: sympy.Symbol(f"z{symbols.index(old)}", integer=True) for new, old in here.items()}
    by_trace = {old: names[new] for new, old in here.items()}
    known = {guard.xreplace(by_trace) for guard in traced.guards}
    batch = {by_trace[old] for old in here.values() if old in traced.batch}
    within = traced.narrowed(compile_range) or compile_range
    found: dict[str, SizeGuard] = {}
    for guard in ready.guards:
        if not guard.expr.free_symbols or not guard.expr.free_symbols <= names.keys():
            continue  # of lifted constants: `twins.assumptions`
        expr = guard.expr.xreplace(names)
        of_batch = expr.free_symbols <= batch
        if expr in known or (of_batch and _holds_within(expr, within)):
            continue
        found[str(expr)] = SizeGuard(str(expr), _layer(guard), of_batch)
    return tuple(found.values())


def _holds_within(expr: Any, within: Range) -> bool:
    """Whether an expression over the batch size is true for all sizes of a range, as far as samples tell."""
    low, high = max(2, within.low), min(within.high, 1 << 30)
    powers = (1 << i for i in range(31))
    samples = {*range(low, min(low + _SAMPLES, high + 1)), high, *(p + d for p in powers for d in (-1, 0, 1))}
    return all(_at(expr, size) for size in samples if low <= size <= high)


def _at(expr: Any, size: int) -> bool:
    return bool(expr.xreplace(dict.fromkeys(expr.free_symbols, sympy.Integer(size))) == sympy.true)


def holds_at(guards: Sequence[SizeGuard], size: int) -> bool:
    """Whether the guards on the batch size alone are true for a size."""
    return all(_text_at(guard.expr, size) for guard in guards if guard.of_batch)


def _text_at(text: str, size: int) -> bool:
    try:
        return bool(expression(text)({f"z{i}": size for i in _NAME.findall(text)}))
    except CannotFollow:
        return True


def conditions(
    guards: Sequence[SizeGuard],
    symbols: Sequence[sympy.Symbol],
    sources: Mapping[str, str],
    applies: Applies,
) -> Iterator[Condition]:
    """The guards of a version in terms of the call's arguments, where `sources` has those of all symbols."""
    for guard in guards:
        text = _NAME.sub(lambda found: str(symbols[int(found[1])]), guard.expr)
        used = sorted({str(symbols[int(i)]) for i in _NAME.findall(guard.expr)})
        if not all(symbol in sources for symbol in used):
            continue
        if guard.of_batch:
            outside = applies.outside(used[0], guard)
            text = f"Or({', '.join([*outside, text])})" if outside else text
        sizes = {symbol: sources[symbol] for symbol in used}
        yield Condition(
            source=", ".join(sizes.values()),
            operator="shape",
            value=text,
            guard="SHAPE_ENV",
            sizes=sizes,
            layer=guard.layer,
        )


class Applies(Struct, frozen=True):
    """For which calls a version runs: a range of sizes, less those with a version of their own."""

    compile_range: Range
    others: tuple[int, ...] = ()
    captured: tuple[int, ...] = ()
    """Smaller calls are padded to one of these."""

    def outside(self, symbol: str, guard: SizeGuard) -> list[str]:
        """Expressions for the calls that need not meet the guard, since they do not run the version."""
        low, high = self.compile_range
        found = [f"{symbol} < {low}"] if low > 1 else []
        found += [f"{symbol} > {high}"] if 0 < high < UNBOUNDED else []
        found += [f"Eq({symbol}, {size})" for size in self.others if size in self.compile_range]
        padded_to = [size for size in self.captured if size in self.compile_range and size not in self.others]
        if padded_to and all(holds_at([guard], size) for size in padded_to):
            found.append(f"{symbol} <= {max(padded_to)}")
        return found


def _layer(guard: Any) -> str:
    """Inductor, with the passes that it runs, or what comes before: AOTAutograd and operators' fakes."""
    place = getattr(guard.sloc, "framework_loc", None)
    file = str(getattr(place, "filename", place))
    ahead = file.startswith(_TORCH) and not file.startswith(f"{_TORCH}_inductor")
    return "aot" if ahead or file.endswith("/refake.py") else "inductor"
