"""Fusions of compiles that a cache served: what was recorded when the artifact was made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import CachedWork, Header, NearMiss, PatternPass
from compdbg.model.fusion_rows import FusionRow, as_miss, stopped
from compdbg.store.reader import Log


def cached_rows(log: Log) -> list[FusionRow]:
    """One row a pass × pattern × graph of each artifact whose making was recorded."""
    works = log.of(CachedWork)
    known: dict[str, dict[str, None]] = defaultdict(dict)
    for _, work in works:
        for event in work.patterns:
            known[event.pass_name].update(dict.fromkeys(_names(event)))
    return [row for header, work in works for row in _rows(header, work, known)]


def _names(event: PatternPass) -> list[str]:
    """The patterns that an apply tells of: all of the pass in its first, in others those that were tried."""
    tried = (event.matched_by, event.attempted_by, event.left_by)
    return [*(p.name for p in event.patterns), *(name for counts in tried for name in counts)]


def _rows(header: Header, work: CachedWork, known: dict[str, dict[str, None]]) -> Iterator[FusionRow]:
    applies: dict[str, list[PatternPass]] = defaultdict(list)
    for event in work.patterns:
        if event.custom:
            applies[event.pass_name].append(event)
    for events in applies.values():
        for name in known[events[-1].pass_name]:
            yield _row(header, work, events, name)


def _row(header: Header, work: CachedWork, events: list[PatternPass], name: str) -> FusionRow:
    matched = sum(event.matched_by.get(name, 0) for event in events)
    left = events[-1].left_by.get(name, 0)
    miss = events[-1].miss_by.get(name)
    return FusionRow(
        pass_=events[-1].pass_name,
        pass_aliases=events[-1].aliases,
        pattern=name,
        graph=work.graph,
        enabled=True,
        outcome="cached",
        matched=matched,
        attempted=sum(event.attempted_by.get(name, 0) for event in events),
        candidates=None,
        sites_left=left,
        near_miss=as_miss(miss) if miss is not None else None,
        duration_us=None,
        reason=miss.reason if miss is not None else None,
        why=f"from the {work.layer} cache; run {work.run}, which filled it, saw {_seen(matched, left, miss)}",
        rank=header.rank,
        process=header.process,
    )


def _seen(matched: int, left: int, miss: NearMiss | None) -> str:
    fired = f"it fire at {matched} site{'' if matched == 1 else 's'}" if matched else "no match"
    if not left or miss is None:
        return fired
    return f"{fired} and {left} left ({stopped(as_miss(miss))})"
