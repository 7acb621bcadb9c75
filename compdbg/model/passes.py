"""The passes over each graph, in the order in which they ran, and those a cache stands for."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from compdbg.events import CachedWork, Header, PassRun, Where
from compdbg.model.shared import word
from compdbg.store.reader import Log


class Pass(Struct, frozen=True, kw_only=True, gc=False):
    """One pass over one graph. `before` and `after` name texts of the run, where it changed."""

    name: str = field(name="pass")
    graph: str
    index: int
    changed: bool
    op_delta: dict[str, int]
    duration_us: float
    before: str | None
    after: str | None
    subsystem: str
    slot: str | None
    custom: bool
    within: int | None
    disabled_by: str | None
    error: str | None
    where: Where | None
    compile_id: str | None
    cached: bool
    """Ran in the earlier run `run`, which filled the cache; here the artifact was loaded."""
    run: str | None
    process: str
    rank: int | None
    event: str


_NO_OPS: dict[str, int] = {}
"""One for the many passes that change no op."""


def build_passes(log: Log) -> list[Pass]:
    """Every pass seen, by process, in time; after them those of artifacts that came from a cache."""
    return [_row(header, event, graph, run=run) for header, event, graph, run in _ran(log)]


def build_changes(log: Log) -> list[Pass]:
    """Those that changed their graph: a small part of them, and all that most questions are about."""
    return [_row(header, event, graph, run=run) for header, event, graph, run in _ran(log) if event.changed]


def _ran(log: Log) -> Iterator[tuple[Header, PassRun, str, str | None]]:
    """Each pass, its graph, and the earlier run that it ran in, where a cache stands for it."""
    for header, event in log.of(PassRun):
        yield header, event, event.graph, None
    for header, work in log.of(CachedWork):
        for event in work.passes:
            yield header, event, work.graph, work.run


def _row(header: Header, event: PassRun, graph: str, *, run: str | None) -> Pass:
    return Pass(
        name=word(event.pass_name),
        graph=word(graph),
        index=event.index,
        changed=event.changed,
        op_delta=event.op_delta or _NO_OPS,
        duration_us=round(event.duration_us, 1),
        before=event.before,
        after=event.after,
        subsystem=word(event.subsystem),
        slot=word(event.slot),
        custom=event.custom,
        within=event.within,
        disabled_by=word(event.disabled_by),
        error=event.error,
        where=event.where,
        compile_id=word(event.compile_id),
        cached=run is not None,
        run=run,
        process=word(header.process),
        rank=header.rank,
        event=header.id,
    )
