"""Writes that a pass lost, and copies that functionalization kept, put together by cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compdbg.events import (
    CachedWork,
    CloneKept,
    CloneRemoved,
    EffectRemoved,
    Graph,
    Header,
    PassRun,
    Where,
)
from compdbg.model.cached_copies import REASON, copies_in
from compdbg.store.reader import Log

INPUT_BYTES = 1024
"""Copies of an input below this cost less than the kernel that makes them."""
OTHER_BYTES = 4096
"""Copies of an intermediate value: it was just computed, and is still in a cache."""


class KeptCopies(Struct, frozen=True, kw_only=True):
    """The copies that one op in one function makes on each call, for one reason."""

    op: str
    arguments: list[str]
    reason: str
    bytes: int
    """A call, in the process and graph that copy most."""
    copies: int
    input: bool
    graphs: list[str]
    where: Where | None
    events: list[str]

    @property
    def costly(self) -> bool:
        return self.bytes >= (INPUT_BYTES if self.input else OTHER_BYTES)


def build_kept_copies(log: Log) -> list[KeptCopies]:
    groups: dict[tuple[str, str, str], list[tuple[Header, CloneKept]]] = defaultdict(list)
    for header, event in (*log.of(CloneKept), *_of_cached_work(log), *_in_cached_graphs(log)):
        place = f"{event.where.file}:{event.where.function}" if event.where else ""
        groups[event.op, place, _kind(event.reason)].append((header, event))
    return [_together(found) for found in groups.values()]


def _of_cached_work(log: Log) -> Iterator[tuple[Header, CloneKept]]:
    """What the run that filled the cache saw."""
    for header, work in log.of(CachedWork):
        for event in work.copies:
            yield header, replace(event, graph=work.graph, compile_id=work.compile_id)


def _in_cached_graphs(log: Log) -> Iterator[tuple[Header, CloneKept]]:
    """What the text of a graph shows whose making nobody recorded."""
    recorded = {(header.process, work.graph) for header, work in log.of(CachedWork)}
    for header, graph in log.of(Graph):
        if not graph.cached or (header.process, graph.graph) in recorded:
            continue
        for copy in copies_in(log.text(graph.text) or ""):
            event = CloneKept(
                graph=graph.graph,
                op=copy.op,
                argument=copy.argument,
                base=copy.base,
                bytes=copy.bytes,
                reason=REASON,
                where=copy.where,
                compile_id=graph.compile_id,
                input=True,
            )
            yield header, event


class LostWrite(Struct, frozen=True, kw_only=True):
    """A write that a pass took out, in this run or in the one that filled the cache."""

    event: EffectRemoved
    passed: PassRun | None
    id: str


def build_lost_writes(log: Log) -> list[LostWrite]:
    seen = [
        LostWrite(event=event, passed=_pass_around(log, header), id=header.id)
        for header, event in log.of(EffectRemoved)
    ]
    cached = [
        LostWrite(
            event=replace(event, graph=work.graph),
            passed=next((p for p in work.passes if p.pass_name == event.pass_name), None),
            id=header.id,
        )
        for header, work in log.of(CachedWork)
        for event in work.lost
    ]
    return seen + cached


def _pass_around(log: Log, header: Header) -> PassRun | None:
    """The pass in whose record an event stands."""
    record = log.by_id.get(f"{header.process}:{header.parent}")
    return record.event if record is not None and isinstance(record.event, PassRun) else None


def build_dropped_copies(log: Log) -> list[tuple[str, CloneRemoved]]:
    """Event id and copy that mattered, dropped in this run or in the one that filled the cache."""
    seen = [(header.id, event) for header, event in log.of(CloneRemoved)]
    cached = [
        (header.id, replace(event, graph=work.graph))
        for header, work in log.of(CachedWork)
        for event in work.dropped
    ]
    return seen + cached


def _kind(reason: str) -> str:
    """The reason without the lines and names in it."""
    return reason.partition("(line")[0].partition("`")[0]


def _together(found: Sequence[tuple[Header, CloneKept]]) -> KeptCopies:
    by_graph: dict[tuple[str, str], list[CloneKept]] = defaultdict(list)
    for header, event in found:
        by_graph[header.process, event.graph].append(event)
    worst = max(by_graph.values(), key=lambda events: sum(e.bytes for e in events))
    first = found[0][1]
    return KeptCopies(
        op=first.op,
        arguments=sorted({event.argument for _, event in found}),
        reason=first.reason,
        bytes=sum(event.bytes for event in worst),
        copies=len(worst),
        input=any(event.input for _, event in found),
        graphs=sorted({event.graph for _, event in found}),
        where=next((event.where for _, event in found if event.where is not None), None),
        events=[header.id for header, _ in found],
    )
