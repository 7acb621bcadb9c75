"""An index of a long run: where each event stands in which file, so that one is decoded when it is looked at.

It is built once, kept in `$XDG_CACHE_HOME/compdbg/index`, and used again while the run's files are
as they were. A run folder stays as it was recorded. What was not opened for longest makes room.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from compdbg.store.files import log_files, stamp

FORMAT = 1
LONG = 8_000_000
"""Bytes of events from which on a run is long: reading all of it would be waited for."""
RUNS = 8
"""Runs of which an index is kept; with the views beside it, one may be as large as its run."""
_TYPES = {
    "file": "H",
    "at": "Q",
    "size": "I",
    "time": "d",
    "kind": "H",
    "rank": "i",
    "process": "H",
    "seq": "I",
}
NO_RANK = -1


class _Line(Struct):
    """What of a line the index holds."""

    process: str
    seq: int
    time: float
    kind: str
    rank: int | None = None


class Contents(Struct):
    """The words that the index counts, and what it was made of."""

    format: int
    files: list[str]
    stamps: list[tuple[int, int]]
    """Size and time of each file when it was read: with others, the index is of no use."""
    kinds: list[str]
    processes: list[str]
    count: int
    damaged: int
    partial: int
    unreadable: list[str]


class Index:
    """The columns of the index, an entry an event, in the order of time."""

    def __init__(self, contents: Contents, columns: dict[str, array[Any]]) -> None:
        self.contents = contents
        self.file, self.at, self.size = columns["file"], columns["at"], columns["size"]
        self.time, self.kind, self.rank = columns["time"], columns["kind"], columns["rank"]
        self.process, self.seq = columns["process"], columns["seq"]
        self.columns = columns

    def __len__(self) -> int:
        return self.contents.count

    def only(self, positions: Sequence[int]) -> Index:
        """The index of some of the events."""
        columns = {
            name: array(_TYPES[name], map(column.__getitem__, positions))
            for name, column in self.columns.items()
        }
        return Index(msgspec.structs.replace(self.contents, count=len(positions)), columns)


def is_long(folder: Path) -> bool:
    return sum(size for size, _ in _stamps(log_files(folder))) > LONG


def home(folder: Path) -> Path:
    """Where the index of a run is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    name = hashlib.blake2b(
        str(folder.resolve()).encode("utf-8", "surrogateescape"), digest_size=12
    ).hexdigest()
    return Path(base) / "compdbg" / "index" / name


def read_index(folder: Path, *, grown: bool = False) -> Index | None:
    """The index of a run as it is now; None where there is none, or the run is another.

    `grown`: also that of a run that has only grown since.
    """
    kept = home(folder)
    try:
        contents = msgspec.json.decode((kept / "contents.json").read_bytes(), type=Contents)
        files = log_files(folder)
        now = dict(zip([p.name for p in files], _stamps(files), strict=True))
        then = dict(zip(contents.files, contents.stamps, strict=True))
        if contents.format != FORMAT or not (then == now or (grown and _has_grown(then, now))):
            return None
        columns: dict[str, array[Any]] = {}
        with (kept / "columns").open("rb") as file:
            for name, code in _TYPES.items():
                columns[name] = array(code)
                columns[name].fromfile(file, contents.count)
            if file.read(1):
                return None
        os.utime(kept)
    except (OSError, EOFError, ValueError, msgspec.DecodeError):  # of another length than it says
        return None
    return Index(contents, columns)


def build_index(folder: Path, progress: Callable[[float], None]) -> Index:
    """Read all lines once; the index, kept for the next time where that can be written."""
    files = log_files(folder)
    stamps = _stamps(files)  # before reading: what comes meanwhile makes it an index of what was
    reading = _Reading(max(1, sum(size for size, _ in stamps)), progress)
    for number, path in enumerate(files):
        reading.read(number, path)
    index = reading.index([p.name for p in files], stamps)
    _keep(index, home(folder))
    return index


class _Reading:
    """The columns as they grow, and how far reading has come."""

    def __init__(self, whole: int, progress: Callable[[float], None]) -> None:
        self.columns: dict[str, array[Any]] = {name: array(code) for name, code in _TYPES.items()}
        self.kinds: dict[str, int] = {}
        self.processes: dict[str, int] = {}
        self.damaged = self.partial = 0
        self.unreadable: list[str] = []
        self._whole, self._progress, self._done = whole, progress, 0

    def read(self, number: int, path: Path) -> None:
        try:
            with path.open("rb") as lines:
                for at, line in _numbered(lines):
                    self._line(number, at, line)
        except OSError:
            self.unreadable.append(path.name)

    def _line(self, number: int, at: int, line: bytes) -> None:
        self._done += len(line)
        if self._done % 1_000_000 < len(line):
            self._progress(min(1.0, self._done / self._whole))
        try:
            known = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            whole = line.endswith(b"\n")
            self.partial += not whole
            self.damaged += whole and bool(line.strip())
            return
        kind = self.kinds.setdefault(known.kind, len(self.kinds))
        process = self.processes.setdefault(known.process, len(self.processes))
        rank = NO_RANK if known.rank is None else known.rank
        columns = self.columns
        columns["file"].append(number)
        columns["at"].append(at)
        columns["size"].append(len(line))
        columns["time"].append(known.time)
        columns["kind"].append(kind)
        columns["rank"].append(rank)
        columns["process"].append(process)
        columns["seq"].append(known.seq)

    def index(self, files: list[str], stamps: list[tuple[int, int]]) -> Index:
        """All events in the order of time, which never runs backwards within a file."""
        times, of_file = self.columns["time"], self.columns["file"]
        latest, before = 0.0, -1
        sort_by = array("d")
        for n, time in enumerate(times):
            latest = max(latest, time) if of_file[n] == before else time
            before = of_file[n]
            sort_by.append(latest)
        order = sorted(range(len(times)), key=sort_by.__getitem__)
        in_time = {
            name: array(_TYPES[name], map(column.__getitem__, order)) for name, column in self.columns.items()
        }
        contents = Contents(
            FORMAT, files, stamps, list(self.kinds), list(self.processes), len(times), self.damaged,
            self.partial, self.unreadable,
        )  # fmt: skip
        return Index(contents, in_time)


_decode = msgspec.json.Decoder(_Line).decode


def _numbered(lines: Any) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in lines:
        yield at, line
        at += len(line)


def _stamps(files: list[Path]) -> list[tuple[int, int]]:
    return [stamp(path) for path in files]


def _has_grown(then: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]]) -> bool:
    return all(name in now and now[name][0] >= size for name, (size, _) in then.items())


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its place when it is whole: another explorer may be reading the one before."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            yield file
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _keep(index: Index, kept: Path) -> None:
    try:
        kept.mkdir(parents=True, exist_ok=True)
        for old in kept.iterdir():
            old.unlink(missing_ok=True)
        with whole_file(kept / "columns") as file:
            for name in _TYPES:
                index.columns[name].tofile(file)
        with whole_file(kept / "contents.json") as file:
            file.write(msgspec.json.encode(index.contents))
        os.utime(kept)
        for unused in sorted(kept.parent.iterdir(), key=lambda one: one.stat().st_mtime)[:-RUNS]:
            shutil.rmtree(unused, ignore_errors=True)
    except OSError:
        return
