"""Every event, one line each, in the order of time: the last resort, and the raw evidence."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins

from compdbg.events import UnknownEvent
from compdbg.store.reader import Record
from compdbg.views.base import Column, Source, View
from compdbg.views.explanation import summary_of
from compdbg.views.places import counted


class EventRow(Struct, frozen=True, kw_only=True):
    """One event: its place and everything it says."""

    id: str
    time_s: float
    process: str
    rank: int | None
    kind: str
    parent: str | None
    data: dict[str, Any]


def events(source: Source) -> View:
    log = source.run.log
    start = log.records[0].header.time if log.records else 0.0
    return View(
        name="events",
        title=counted(len(log.records), "event"),
        items=[_row(record, start) for record in log.records],
        columns=(
            Column("time", lambda r: f"{r.time_s:.3f}", align="right"),
            Column("event", lambda r: _line(source, r), wide=True),
        ),
        empty="the log holds no event",
    )


def _row(record: Record, start: float) -> EventRow:
    header, event = record
    data = event.fields if isinstance(event, UnknownEvent) else to_builtins(event)
    parent = None if header.parent is None else f"{header.process}:{header.parent}"
    return EventRow(
        id=header.id,
        time_s=round(header.time - start, 6),
        process=header.process,
        rank=header.rank,
        kind=event.kind,
        parent=parent,
        data={name: value for name, value in data.items() if name != "kind"},
    )


def _line(source: Source, row: EventRow) -> str:
    return summary_of(source.run.log.by_id[row.id].event, row.id)
