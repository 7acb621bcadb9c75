"""Sizes: what was asked of each dimension of each input, what it became, and what made it so."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import Symbol, SymbolFixed, SymbolJoined
from compdbg.model.sources import dimension
from compdbg.store.reader import Log

EXPLICIT = ("mark_dynamic", "maybe_mark_dynamic", "mark_unbacked", "shapes spec")
"""Requests for one dimension by name, against those for all of them (`dynamic=True`)."""


class Dimension(Struct, frozen=True, kw_only=True):
    """One size of one compile: `fixed` where an op made a symbol a number afterwards."""

    process: str
    frame: str
    compile_id: str
    tensor: str
    dim: int | None
    source: str
    asked: str
    became: str
    value: int | None
    zero_one: bool
    why: str
    symbol: str | None
    fixed: SymbolFixed | None
    joined: list[tuple[str, SymbolJoined]]
    """Where it was found equal to others, with the events' ids."""
    events: list[str]

    @property
    def is_static(self) -> bool:
        return self.became == "static" or self.fixed is not None

    @property
    def name(self) -> str:
        """`x.size(0)`."""
        return self.tensor if self.dim is None else f"{self.tensor}.size({self.dim})"


def build_dimensions(log: Log) -> list[Dimension]:
    """Every recorded size, in the order in which they were traced."""
    joined = _joins(log)
    fixed: dict[tuple[str, str, str, str], list[tuple[str, SymbolFixed]]] = {}
    for fixed_header, by_op in log.of(SymbolFixed):
        for source in by_op.sources:
            key = (fixed_header.process, by_op.frame, by_op.compile_id, source)
            fixed.setdefault(key, []).append((fixed_header.id, by_op))
    found = []
    for header, event in log.of(Symbol):
        key = (header.process, event.frame, event.compile_id, event.source)
        by = next(((id, each) for id, each in fixed.get(key, ()) if _seq(id) > header.seq), None)
        tensor, dim = dimension(event.source)
        found.append(
            Dimension(
                process=header.process,
                frame=event.frame,
                compile_id=event.compile_id,
                tensor=tensor,
                dim=dim,
                source=event.source,
                asked=event.asked,
                became=event.became,
                value=event.value,
                zero_one=event.zero_one,
                why=event.why,
                symbol=event.symbol,
                fixed=by[1] if by else None,
                joined=[] if event.symbol is None else joined.get((*key[:3], event.symbol), []),
                events=[header.id, *([by[0]] if by else [])],
            )
        )
    return found


def _joins(log: Log) -> dict[tuple[str, str, str, str], list[tuple[str, SymbolJoined]]]:
    """By process, frame, compile and symbol."""
    found: dict[tuple[str, str, str, str], list[tuple[str, SymbolJoined]]] = {}
    for header, event in log.of(SymbolJoined):
        key = (header.process, event.frame, event.compile_id, event.symbol)
        found.setdefault(key, []).append((header.id, event))
    return found


def _seq(id: str) -> int:
    return int(id.rpartition(":")[2])
