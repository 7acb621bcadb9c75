"""Reads a run folder: every process's file, merged by time, damaged lines skipped and counted."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from compdbg.events import SCHEMA, Event, Header, UnknownEvent, event_types

E = TypeVar("E", bound=Event)

_events: Any = event_types()
_decode_event = msgspec.json.Decoder(__import__("typing").Union[_events]).decode
_decode_header = msgspec.json.Decoder(Header).decode


class CannotRead(Exception):
    """The input is no run, or of a version that can't be read; the message is for the user."""


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
    records: list[Record]
    damaged: int = 0
    unknown: dict[str, int] = field(default_factory=dict)

    @cached_property
    def _by_type(self) -> dict[type, list[Record]]:
        found: dict[type, list[Record]] = defaultdict(list)
        for record in self.records:
            found[type(record.event)].append(record)
        return found

    def of(self, kind: type[E]) -> list[tuple[Header, E]]:
        """Every event of one type with its header, in the order of time."""
        return self._by_type.get(kind, [])  # type: ignore[return-value]

    @cached_property
    def by_id(self) -> dict[str, Record]:
        return {record.id: record for record in self.records}

    def text(self, digest: str | None) -> str | None:
        """A large text by its content hash; None if it was not recorded or is lost."""
        if not digest or not all(c in "0123456789abcdef" for c in digest):
            return None
        try:
            return (self.folder / "payloads" / f"{digest}.txt").read_text("utf-8", "surrogateescape")
        except OSError:
            return None


def read_log(folder: Path) -> Log:
    """Read a run folder, complete or not.

    Raises:
        CannotRead: no run is there, or one of a newer major schema.
    """
    manifest = _read_manifest(folder)
    _check_schema(manifest, folder)
    files = sorted(folder.glob("*.jsonl"))
    if not files and not manifest:
        raise CannotRead(f"{folder} holds no run: neither run.json nor *.jsonl")
    records: list[Record] = []
    damaged = 0
    unknown: dict[str, int] = defaultdict(int)
    for path in files:
        damaged += _read_file(path, records, unknown)
    records.sort(key=lambda r: (r.header.time, r.header.process, r.header.seq))
    return Log(folder, manifest, records, damaged, dict(unknown))


def _read_file(path: Path, records: list[Record], unknown: dict[str, int]) -> int:
    damaged = 0
    with path.open("rb") as lines:
        for line in lines:
            if not line.strip():
                continue
            try:
                header = _decode_header(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                damaged += 1
                continue
            try:
                records.append(Record(header, _decode_event(line)))
            except msgspec.ValidationError:
                event = _unknown(line)
                if event is None:
                    damaged += 1
                else:
                    unknown[event.kind] += 1
                    records.append(Record(header, event))
    return damaged


def _unknown(line: bytes) -> UnknownEvent | None:
    fields = msgspec.json.decode(line)
    kind = fields.pop("kind", None) if isinstance(fields, dict) else None
    return UnknownEvent(kind, fields) if isinstance(kind, str) else None


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _check_schema(manifest: dict[str, Any], folder: Path) -> None:
    schema = str(manifest.get("schema", "1.0"))
    major = schema.partition(".")[0]
    if not major.isdecimal() or int(major) > SCHEMA[0]:
        raise CannotRead(f"{folder} is of schema {schema}, newer than this compdbg can read; upgrade compdbg")
