"""Events: all of them, one line each, narrowed by `kind:guard rank:1 piece:3 text`."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, overload

from msgspec import Struct, json, to_builtins

from compdbg.events import Header, UnknownEvent, Where
from compdbg.store.reader import Log, Record, Unread
from compdbg.views.base import Column, Source, View
from compdbg.views.explanation import summary_of
from compdbg.views.explorer.base import Block, Page, Place, source_code
from compdbg.views.explorer.event_filter import Filter, parse
from compdbg.views.explorer.words import facts, listing
from compdbg.views.places import counted

_BAD = ("error", "violation", "removed", "lost", "leak", "stale", "changed", "missed")
MAX_VALUE = 400


class EventItem(Struct, frozen=True, kw_only=True):
    """One event: when, whose, and what it says on one line."""

    id: str
    time_s: float
    kind: str
    rank: int | None
    process: str
    text: str


class EventItems(Sequence[EventItem]):
    """Rows that are made when they are looked at, of a log of any length."""

    def __init__(self, log: Log, chosen: Sequence[int]) -> None:
        self._log = log
        self._chosen = chosen
        self._start = _start(log)

    def index_of(self, position: int) -> int:
        """Where an event of the log stands here, or would stand."""
        return min(bisect.bisect_left(self._chosen, position), max(0, len(self) - 1))

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> EventItem: ...
    @overload
    def __getitem__(self, index: slice) -> list[EventItem]: ...
    def __getitem__(self, index: int | slice) -> EventItem | list[EventItem]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        try:
            return self._item(self._log.records[self._chosen[index]])
        except Unread as gone:
            return self._gone(gone)

    def _gone(self, event: Unread) -> EventItem:
        """What the index knows of an event that is no longer in its file."""
        return self._row(event.header, event.kind, "(no longer in the log)")

    def _item(self, record: Record) -> EventItem:
        header, event = record
        told = summary_of(event, header.id) if not isinstance(event, UnknownEvent) else _unknown(event)
        return self._row(header, event.kind, told.removeprefix(f"{header.id} {event.kind}").strip())

    def _row(self, header: Header, kind: str, text: str) -> EventItem:
        return EventItem(
            id=header.id,
            time_s=header.time - self._start,
            kind=kind,
            rank=header.rank,
            process=header.process,
            text=text,
        )


def _start(log: Log) -> float:
    """When the first event was."""
    try:
        return log.records[0].header.time if log.records else 0.0
    except Unread as gone:
        return gone.header.time


def _unknown(event: UnknownEvent) -> str:
    return f"(not known to this version) {json.encode(event.fields).decode()[:MAX_VALUE]}"


def events_view(source: Source, query: str = "", rank: int | None = None) -> View:
    """All events, or those that a filter lets through."""
    log = source.run.log
    wanted = parse(query)
    if rank is not None:
        wanted = Filter(wanted.kinds, (*wanted.ranks, rank), wanted.pieces, wanted.words)
    chosen = log.select(wanted.kinds, wanted.ranks, wanted.texts) if wanted else range(len(log.records))
    shown = counted(len(chosen), "event")
    return View(
        name="events",
        title=f"{shown} of {len(log.records)}: {query}" if wanted else shown,
        items=EventItems(log, chosen),
        columns=(
            Column("time", lambda r: f"{r.time_s:.3f}", align="right"),
            Column("kind", lambda r: r.kind, role=_role),
            Column("rank", lambda r: "" if r.rank is None else str(r.rank), align="right"),
            Column("event", lambda r: r.text, wide=True),
            Column("id", lambda r: r.id, role=lambda r: "dim"),
        ),
        empty="No event passes this filter." if wanted else "The log holds no event.",
    )


def _role(item: EventItem) -> str:
    return "bad" if any(word in item.kind for word in _BAD) else ""


def event_page(source: Source, item: EventItem) -> Page:
    record = source.run.log.by_id.get(item.id)
    if record is None:
        return Page(title=item.id, blocks=facts(("", "This event is no longer in the log.")))
    header, event = record
    fields = event.fields if isinstance(event, UnknownEvent) else to_builtins(event)
    where = _where(event)
    blocks: list[Block] = [
        *facts(
            ("", f"{event.kind} {header.id}", "title"),
            ("time", f"{item.time_s:.6f} s after the first event"),
            ("process", header.process),
            ("rank", header.rank),
            ("inside", _parent(source, record)),
        ),
        *facts(*((name, _value(value)) for name, value in fields.items() if name != "kind" and _flat(value))),
    ]
    for name, value in fields.items():
        if not _flat(value):
            blocks.append(listing(name, [_value(v) for v in _parts(value)][:200]))
        if isinstance(value, str) and (text := source.run.log.text(value) if len(value) == 32 else None):
            blocks.append(listing(f"the text {name}", text.splitlines()[:400], "python"))
    return Page(title=f"{event.kind} {header.id}", blocks=[*blocks, *source_code(source, where)], where=where)


def _where(event: Any) -> Where | None:
    where = getattr(event, "where", None)
    return where if isinstance(where, Where) else None


def _parent(source: Source, record: Record) -> str | None:
    header = record.header
    if header.parent is None:
        return None
    parent = source.run.log.by_id.get(f"{header.process}:{header.parent}")
    return summary_of(parent.event, parent.id)[:200] if parent else None


def _flat(value: object) -> bool:
    return not isinstance(value, (list, dict)) or len(str(value)) <= 80


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return [f"{key}: {_value(v)}" for key, v in value.items()]
    return value if isinstance(value, list) else [value]


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.encode(value).decode()
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


EVENTS = Place(
    name="events",
    letter="e",
    title="Events",
    view=events_view,
    page=event_page,
    key=lambda r: r.id,
    row=EventItem,
    about=lambda r, finding: r.id in finding.evidence,
)
