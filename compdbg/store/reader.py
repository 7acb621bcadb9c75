"""Reads a run folder: every process's file, merged by time, damaged lines skipped and counted."""

from __future__ import annotations

import functools
import gc
import json
import operator
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from compdbg.events import SCHEMA, Event, Header, UnknownEvent, event_types
from compdbg.store.files import log_files, why_unreadable
from compdbg.store.positions import Positions
from compdbg.store.sharing import Sharing

E = TypeVar("E", bound=Event)

_events: Any = event_types()
_decode_event = msgspec.json.Decoder(functools.reduce(operator.or_, _events)).decode
KINDS = {cls.__struct_config__.tag: cls for cls in _events}
_decode_header = msgspec.json.Decoder(Header).decode
_MANIFEST: dict[str, Any] = {
    "argv": list[str],
    "started": str,
    "pid": int,
    "host": str,
    "options": dict[str, Any],
    "complete": bool,
    "exit_status": int | None,
    "signal": int | None,
    "duration_s": float | None,
    "findings": dict[str, int],
}
"""What is read of `run.json`; a value of another type is as good as none."""
_HEAD = 1 << 15
"""Bytes of a process's file in which its command and its versions stand."""


class CannotRead(Exception):
    """The input is no run, or of a version that can't be read; the message is for the user."""


class Unread(CannotRead):
    """An event that is no longer where it was: its file is gone, shorter or another one."""

    def __init__(self, header: Header, kind: str, file: str) -> None:
        super().__init__(f"event {header.id} is no longer in {file}: the log has changed since it was opened")
        self.header = header
        self.kind = kind


class Record(NamedTuple):
    """One event and its place."""

    header: Header
    event: Event | UnknownEvent

    @property
    def id(self) -> str:
        return self.header.id


@dataclass(frozen=True)
class Log:
    """All events of a run in the order of time, by kind, and its large texts."""

    folder: Path
    manifest: dict[str, Any]
    records: Sequence[Record]
    damaged: int = 0
    """Lines that are no event. A last line that was cut short, as by SIGKILL, is `partial` instead."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Kinds that this version does not know, of a newer minor schema, and how often they came."""
    partial: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    """Process -> events that it could not write, where it could not write even that."""
    unreadable: list[str] = field(default_factory=list)
    """Names of files that could not be read."""
    texts: Mapping[str, str] | None = None
    """Large texts by their hash, of a run that did not come as a folder."""
    sources: Mapping[str, Mapping[int, str]] | None = None
    """Lines of the program's files that came with the run; None: they are read where they lie."""
    left_out: Sequence[str] = ()
    """What the file that the run came in does not hold of it, in sentences."""

    @cached_property
    def _by_type(self) -> dict[type, list[Record]]:
        found: dict[type, list[Record]] = defaultdict(list)
        for record in self.records:
            found[type(record.event)].append(record)
        return found

    def of(self, kind: type[E]) -> list[tuple[Header, E]]:
        """Every event of one type with its header, in the order of time."""
        return self._by_type.get(kind, [])  # type: ignore[return-value]

    def among(self, kinds: Sequence[type[Any]]) -> Sequence[Record]:
        """Every event of several types, in the order of time."""
        return [record for record in self.records if type(record.event) in kinds]

    @cached_property
    def by_id(self) -> Mapping[str, Record]:
        return RecordsById(self.records, self._positions)

    @cached_property
    def ends(self) -> dict[str, tuple[float, float]]:
        """Process -> the times of its first and of its last event."""
        found: dict[str, tuple[float, float]] = {}
        for header, _ in self.records:
            first, _ = found.get(header.process, (header.time, 0.0))
            found[header.process] = (first, header.time)
        return found

    def position(self, id: str) -> int | None:
        """Where in `records` an event stands."""
        return self._positions.of(id)

    @cached_property
    def _positions(self) -> Positions:
        return Positions(header for header, _ in self.records)

    def select(self, kinds: Sequence[str], ranks: Sequence[int], texts: Sequence[str]) -> Sequence[int]:
        """Positions of records whose kind holds one of `kinds`, of one of `ranks`, with all `texts`."""
        wanted = [text.lower() for text in texts]
        return [n for n, record in enumerate(self.records) if _passes(record, kinds, ranks, wanted)]

    def of_rank(self, rank: int) -> Log:
        """The log as if only the processes of one rank had been recorded."""
        return replace(self, records=[record for record in self.records if record.header.rank == rank])

    def text(self, digest: str | None) -> str | None:
        """A large text by its content hash; None if it was not recorded or is lost."""
        if not digest or not all(c in "0123456789abcdef" for c in digest):
            return None
        if self.texts is not None:
            return self.texts.get(digest)
        try:
            return (self.folder / "payloads" / f"{digest}.txt").read_text("utf-8", "surrogateescape")
        except OSError:
            return None


class RecordsById(Mapping[str, Record]):
    """`process:seq` -> event."""

    def __init__(self, records: Sequence[Record], positions: Positions) -> None:
        self._records, self._positions = records, positions

    def __getitem__(self, id: str) -> Record:
        position = self._positions.of(id)
        if position is None:
            raise KeyError(id)
        return self._records[position]

    def __iter__(self) -> Iterator[str]:
        return (record.id for record in self._records)

    def __len__(self) -> int:
        return len(self._records)


def _passes(record: Record, kinds: Sequence[str], ranks: Sequence[int], texts: Sequence[str]) -> bool:
    header, event = record
    if kinds and not any(kind in event.kind for kind in kinds):
        return False
    if ranks and header.rank not in ranks:
        return False
    if not texts:
        return True
    line = f"{header.id} {event.kind} {msgspec.json.encode(event).decode()}".lower()
    return all(text in line for text in texts)


def read_log(folder: Path) -> Log:
    """Read a run folder, complete or not.

    Raises:
        CannotRead: no run is there, or one of a newer major schema.
    """
    with _collection_paused():
        return _read(folder)


def _read(folder: Path) -> Log:
    manifest = read_manifest(folder)
    files = log_files(folder)
    hidden = why_unreadable(folder)
    contents = [_read_file(path) for path in files]
    records = [entry for content in contents for entry in content.records]
    if not records and not manifest:
        if hidden is not None:
            raise CannotRead(f"{folder} can't be read: {hidden}")
        what = "nothing that could be read" if files else "no run: neither run.json nor *.jsonl"
        within = (
            ""
            if files
            else next(
                (f"; name one of those in it, such as {m.parent}" for m in folder.glob("*/run.json")), ""
            )
        )
        raise CannotRead(f"{folder} holds {what}{within}")
    records.sort(key=lambda entry: (entry[0], entry[1].header.process, entry[1].header.seq))
    unknown = Counter(r.event.kind for _, r in records if isinstance(r.event, UnknownEvent))
    return Log(
        folder,
        manifest,
        [record for _, record in records],
        damaged=sum(content.damaged for content in contents),
        unknown=dict(unknown),
        partial=sum(content.partial for content in contents),
        lost=read_markers(folder),
        unreadable=[p.name for p, c in zip(files, contents, strict=True) if c.unreadable]
        + [folder.name] * (hidden is not None),
    )


@contextmanager
def _collection_paused() -> Iterator[None]:
    """What is read stays: to look through it for garbage again and again takes longer than to read it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read_head(folder: Path) -> Log:
    """The first events of each process, of a run that takes long to read: what it is a run of.

    Raises:
        CannotRead: it is of a newer major schema.
    """
    records = []
    for path in log_files(folder):
        with suppress(OSError), path.open("rb") as file:
            lines = file.read(_HEAD).split(b"\n")[:-1]
            records += [record for line in lines if (record := decode_line(line)) is not None]
    return Log(folder, read_manifest(folder), records)


@dataclass
class _Content:
    records: list[tuple[float, Record]] = field(default_factory=list)
    """With the time to sort by, which never runs backwards within a process, as clocks may."""
    damaged: int = 0
    partial: int = 0
    unreadable: bool = False


def _read_file(path: Path) -> _Content:
    content, sharing = _Content(), Sharing()
    latest = 0.0
    try:
        with path.open("rb") as lines:
            for line in lines:
                record = decode_line(line)
                if record is not None:
                    sharing.share(*record)
                    latest = max(latest, record.header.time)
                    content.records.append((latest, record))
                elif not line.endswith(b"\n"):
                    content.partial += 1
                elif line.strip():
                    content.damaged += 1
    except OSError:
        content.unreadable = True
    return content


def decode_header(line: bytes) -> Header | None:
    """Who wrote a line and when; None where it says nothing of that."""
    try:
        return _decode_header(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decode_line(line: bytes) -> Record | None:
    """One line as an event; None if it is none."""
    try:
        header = _decode_header(line)
        try:
            return Record(header, _decode_event(line))
        except msgspec.ValidationError:
            fields = msgspec.json.decode(line)
            kind = fields.pop("kind", None)
            if not isinstance(kind, str) or kind in KINDS:
                return None
            return Record(header, UnknownEvent(kind, fields))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def read_markers(folder: Path) -> dict[str, int]:
    """Empty files named `<process's file>.lost-<count>`: a full disk had room for no more."""
    counts: dict[str, int] = {}
    for path in folder.glob("*.lost-*"):
        name, _, count = path.name.rpartition(".lost-")
        if count.isdecimal():
            counts[name] = counts.get(name, 0) + int(count)
    return counts


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `run.json` says, as far as it is as expected.

    Raises:
        CannotRead: it is of a newer major schema.
    """
    try:
        given = json.loads((folder / "run.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return checked_manifest(given, folder)


def _is(value: Any, expected: Any) -> bool:
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError:
        return False
    return True


def as_event(kind: str, fields: dict[str, Any]) -> Event | UnknownEvent | None:
    """An event from its fields; None where the kind is known and the fields are not its own."""
    try:
        if kind not in KINDS:
            return UnknownEvent(kind, fields)
        event: Event = msgspec.convert({**fields, "kind": kind}, KINDS[kind])
        return event
    except msgspec.ValidationError:
        return None


def checked_manifest(given: Any, place: Path) -> dict[str, Any]:
    """The parts of a `run.json` that are as expected.

    Raises:
        CannotRead: it is of a newer major schema.
    """
    if not isinstance(given, dict):
        return {}
    _check_schema(given.get("schema", "1.0"), place)
    return {
        key: given[key] for key, expected in _MANIFEST.items() if key in given and _is(given[key], expected)
    }


def _check_schema(schema: Any, folder: Path) -> None:
    major = str(schema).partition(".")[0]
    if not major.isdecimal() or int(major) > SCHEMA[0]:
        raise CannotRead(f"{folder} is of schema {schema}, newer than this compdbg can read; upgrade compdbg")
