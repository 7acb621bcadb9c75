"""The events and large texts of a run in one compact value, and back: what a report carries.

Events are kept a table a kind; their headers as columns of small numbers, in the order of time.
Texts (graphs before and after passes) share most of their lines: each line is kept once, and a
text is runs of lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from compdbg.events import Header, UnknownEvent
from compdbg.store.columns import pack_column, pack_rows, unpack_column, unpack_rows
from compdbg.store.reader import Record, as_event

_COLUMNS = ("process", "rank", "kind", "time", "seq", "parent")
MAX_CHARACTERS = 1 << 28
"""Of all texts of a run; what was written by us is far below."""
_HEADER = set(Header.__struct_fields__)


def pack_events(records: Sequence[Record]) -> dict[str, Any]:
    """Events in their order. `time` counts microseconds from the event before, `seq` from the
    process's own event before, `parent` back from `seq` (0: none)."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    headers: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    kinds: dict[str, int] = {}
    before = start = records[0].header.time if records else 0.0
    last: Counter[str] = Counter()
    for header, event in records:
        rows[event.kind].append(fields_of(event))
        headers["process"].append(header.process)
        headers["rank"].append(header.rank)
        headers["kind"].append(kinds.setdefault(event.kind, len(kinds)))
        headers["time"].append(round((header.time - start) * 1e6) - round((before - start) * 1e6))
        headers["seq"].append(header.seq - last[header.process])
        headers["parent"].append(0 if header.parent is None else header.seq - header.parent)
        before, last[header.process] = header.time, header.seq
    return {
        "run": records[0].header.run if records else "",
        "start": start,
        "kinds": list(kinds),
        "headers": {name: pack_column(values) for name, values in headers.items()},
        "rows": {kind: pack_rows(of_kind) for kind, of_kind in rows.items()},
    }


def fields_of(event: Any) -> dict[str, Any]:
    """What an event says, as plain values, without what its header says."""
    if isinstance(event, UnknownEvent):
        return {name: value for name, value in event.fields.items() if name not in _HEADER}
    fields: dict[str, Any] = msgspec.to_builtins(event)
    fields.pop("kind", None)
    return fields


def unpack_events(packed: dict[str, Any]) -> Iterable[Record]:
    """The events; those that are none are left out.

    Raises:
        KeyError, IndexError, TypeError, ValueError: it was not packed by `pack_events`.
    """
    columns = {name: unpack_column(column) for name, column in packed["headers"].items()}
    rows = {kind: iter(unpack_rows(table)) for kind, table in packed["rows"].items()}
    micros, last = 0, Counter[str]()
    for process, rank, kind, time, seq, parent in zip(*(columns[name] for name in _COLUMNS), strict=True):
        micros += time
        last[process] += seq
        number = last[process]
        given = {
            "process": process,
            "seq": number,
            "time": packed["start"] + micros / 1e6,
            "run": packed["run"],
            "rank": rank,
            "parent": number - parent if parent else None,
        }
        name = packed["kinds"][kind]
        event = as_event(name, next(rows[name]))
        if event is not None:
            yield Record(msgspec.convert(given, Header), event)


def pack_texts(texts: Mapping[str, str]) -> dict[str, Any]:
    """Texts by their hash, as `[first line, number of lines, ...]` into one list of lines."""
    lines: dict[str, int] = {}
    runs: dict[str, list[int]] = {}
    for digest, text in texts.items():
        found: list[int] = []
        for line in text.split("\n"):
            place = lines.setdefault(line, len(lines))
            if found and found[-2] + found[-1] == place:
                found[-1] += 1
            else:
                found += [place, 1]
        runs[digest] = found
    return {"lines": list(lines), "runs": runs}


def unpack_texts(packed: dict[str, Any]) -> dict[str, str]:
    """The texts by their hash.

    Raises:
        KeyError, IndexError, TypeError, ValueError: they were not packed by `pack_texts`.
    """
    lines: list[str] = packed["lines"]
    texts = {}
    room = MAX_CHARACTERS
    for digest, runs in packed["runs"].items():
        found: list[str] = []
        for first, count in zip(runs[::2], runs[1::2], strict=True):
            more = lines[first : first + count]
            room -= sum(map(len, more)) + len(more)
            if room < 0:
                raise ValueError(f"texts of more than {MAX_CHARACTERS:,} characters")
            found += more
        texts[digest] = "\n".join(found)
    return texts
