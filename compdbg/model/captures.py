"""What went wrong with captures: those that failed, and replays that were given something else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from compdbg.events import AddressChanged, Capture, Event, Header, PaddingLeak, StaleInput, Where
from compdbg.model.sizes import ServedSize
from compdbg.store.reader import Log

E = TypeVar("E", bound=Event)


class FailedCapture(Struct, frozen=True, kw_only=True):
    """One reason for which captures failed, at one line: its first occurrence, and where else."""

    graph: str
    first: Capture
    sizes: list[int]
    pieces: list[str]
    events: list[str]


class MovedArgument(Struct, frozen=True, kw_only=True):
    name: str
    captured: str
    seen: str


class MovedInputs(Struct, frozen=True, kw_only=True):
    """Inputs of a graph that were elsewhere on a replay: the model's own (`static`), or the call's."""

    graph: str
    static: bool
    arguments: list[MovedArgument]
    size: int
    calls: int
    where: Where | None
    events: list[str]


class StaleValue(Struct, frozen=True, kw_only=True):
    """A value that the captures of a graph have read, and that changed. `seen`: the others, in order."""

    graph: str
    name: str
    captured: str
    seen: list[str]
    sizes: list[int]
    calls: int
    where: Where | None
    events: list[str]
    replayed: bool
    """Read by an operator itself: calls were replayed all the same."""


class Leak(Struct, frozen=True, kw_only=True):
    """Something that rows added by padding changed."""

    graph: str
    what: list[str]
    """`output N`, or the name of the memory: all that one operator's mixing changes."""
    first: PaddingLeak
    sizes: list[tuple[int, int]]
    """Rows of the call, and rows after padding."""
    max_abs: float | None
    events: list[str]


def build_failed_captures(log: Log) -> list[FailedCapture]:
    """In the order of time. One cause at one line is one, whatever sizes and pieces it comes at."""
    failed = [(header, event) for header, event in log.of(Capture) if event.error is not None]
    groups = _grouped(failed, lambda e: (e.graph, e.fault, e.op, e.where and (e.where.file, e.where.line)))
    return [
        FailedCapture(
            graph=found[0][1].graph,
            first=found[0][1],
            sizes=sorted({event.size for _, event in found}),
            pieces=_unique(event.piece for _, event in found),
            events=[header.id for header, _ in found],
        )
        for found in groups
    ]


def build_moved_inputs(log: Log, sizes: Sequence[ServedSize]) -> list[MovedInputs]:
    groups = _grouped(log.of(AddressChanged), lambda e: (e.graph, e.static))
    return [_moved(found, _refused(sizes, "moved")) for found in groups]


def _moved(found: Sequence[tuple[Header, AddressChanged]], refused: Mapping[str, int]) -> MovedInputs:
    first = found[0][1]
    names: dict[str, AddressChanged] = {}
    for _, event in found:
        names.setdefault(event.argument, event)
    arguments = [
        MovedArgument(name=name, captured=event.captured, seen=event.seen) for name, event in names.items()
    ]
    return MovedInputs(
        graph=first.graph,
        static=first.static,
        arguments=arguments,
        size=first.size,
        calls=max(_calls(found), refused.get(first.graph, 0)),
        where=first.where,
        events=[header.id for header, _ in found],
    )


def build_stale_values(log: Log, sizes: Sequence[ServedSize]) -> list[StaleValue]:
    """Values only: metadata that has another form is no value that has changed."""
    refused = _refused(sizes, "changed")
    changed = [(header, event) for header, event in log.of(StaleInput) if not event.form]
    return [
        StaleValue(
            graph=found[0][1].graph,
            name=found[0][1].name,
            captured=found[0][1].captured,
            seen=_unique(event.seen for _, event in found),
            sizes=sorted({event.size for _, event in found}),
            calls=max(_calls(found), 0 if found[0][1].replayed else refused.get(found[0][1].graph, 0)),
            replayed=found[0][1].replayed,
            where=found[0][1].where,
            events=[header.id for header, _ in found],
        )
        for found in _grouped(changed, _what_is_stale)
    ]


def _what_is_stale(event: StaleInput) -> tuple[object, ...]:
    """One line that reads a value is one cause, whichever operators it is given to."""
    line = (event.where.file, event.where.line) if event.replayed and event.where else event.name
    return event.graph, event.replayed, line


def build_leaks(log: Log) -> list[Leak]:
    return [
        Leak(
            graph=found[0][1].graph,
            what=_unique(event.what for _, event in found),
            first=found[0][1],
            sizes=_unique((event.size, event.padded_to) for _, event in found),
            max_abs=max((e.max_abs for _, e in found if e.max_abs is not None), default=None),
            events=[header.id for header, _ in found],
        )
        for found in _grouped(log.of(PaddingLeak), lambda e: (e.graph, e.piece, e.node or e.what))
    ]


def _refused(sizes: Sequence[ServedSize], reason: str) -> Counter[str]:
    """Graph -> calls that were not replayed for this reason, as tallies say."""
    refused: Counter[str] = Counter()
    for size in sizes:
        refused[size.graph] += size.uncaptured.get(reason, 0)
    return refused


def _calls(found: Sequence[tuple[Header, Any]]) -> int:
    """Calls so far, as the last events of each process, size and piece say; at least as many."""
    last: dict[tuple[str, int, str], int] = {}
    for header, event in found:
        last[header.process, event.size, event.piece] = event.calls
    return sum(last.values())


def _grouped(found: Iterable[tuple[Header, E]], key: Any) -> list[list[tuple[Header, E]]]:
    groups: dict[Hashable, list[tuple[Header, E]]] = defaultdict(list)
    for header, event in found:
        groups[key(event)].append((header, event))
    return list(groups.values())


T = TypeVar("T", bound=Hashable)


def _unique(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
