"""Fusions whose replacement is not like the region that it replaced."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from compdbg.events import CompileError, ReplacementWrong
from compdbg.store.reader import Log


class WrongFusion(Struct, frozen=True, kw_only=True):
    """All that is wrong of one pattern's replacement, over all graphs and processes."""

    pass_name: str
    pattern: str
    faults: list[ReplacementWrong]
    """Each kind of fault once, as first seen."""
    graphs: list[str]
    count: int
    """Replaced regions with a fault."""
    events: list[str]
    failed: list[str]
    """Compiles that raised after a region of theirs was replaced: errors of what follows."""


def build_wrong_fusions(log: Log) -> list[WrongFusion]:
    found: dict[tuple[str, str], list[tuple[str, ReplacementWrong]]] = defaultdict(list)
    compiles: dict[tuple[str, str], set[tuple[str, str | None]]] = defaultdict(set)
    for header, event in log.of(ReplacementWrong):
        found[event.pass_name, event.pattern].append((header.id, event))
        compiles[event.pass_name, event.pattern].add((header.process, event.compile_id))
    errors = [(h.process, e.compile_id, h.id) for h, e in log.of(CompileError) if e.compile_id]
    return [
        _fusion(
            *key, faults, [id for process, compile_id, id in errors if (process, compile_id) in compiles[key]]
        )
        for key, faults in found.items()
    ]


def _fusion(
    name: str, pattern: str, found: list[tuple[str, ReplacementWrong]], failed: list[str]
) -> WrongFusion:
    first = {event.fault: event for _, event in reversed(found)}
    return WrongFusion(
        pass_name=name,
        pattern=pattern,
        faults=list(reversed(first.values())),
        graphs=list(dict.fromkeys(event.graph for _, event in found)),
        count=len({(event.graph, event.graph_id, event.output) for _, event in found}),
        events=[id for id, _ in found],
        failed=failed,
    )
