"""The log of a long run: its events are read from their files when they are looked at."""

from __future__ import annotations

import bisect
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import merge
from pathlib import Path
from typing import Any, overload

from compdbg.events import Header, UnknownEvent
from compdbg.store.files import Descriptor
from compdbg.store.index import NO_RANK, Index
from compdbg.store.reader import (
    KINDS,
    Log,
    Record,
    Unread,
    decode_header,
    decode_line,
    read_manifest,
    read_markers,
)

FEW = 20_000
"""So many events of a kind are kept once they were read."""
_NONE = -1
"""In place of the descriptor of a file that can't be opened."""


class Records(Sequence[Record]):
    """Events by their positions in time, decoded each time that they are looked at."""

    def __init__(self, index: Index, files: Sequence[int], chosen: Sequence[int]) -> None:
        self._index, self._files, self._chosen = index, files, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        if isinstance(index, slice):
            return [self._read(n) for n in self._chosen[index]]
        return self._read(self._chosen[index])

    def __iter__(self) -> Iterator[Record]:
        return map(self._read, self._chosen)

    def _read(self, position: int) -> Record:
        """The event at a position.

        Raises:
            Unread: the log is no longer as it was when the index was made.
        """
        index = self._index
        line = _bytes(index, self._files, position)
        record = decode_line(line)
        header = record.header if record is not None else decode_header(line)
        wanted = index.contents.processes[index.process[position]], index.seq[position]
        if header is None or (header.process, header.seq) != wanted:
            raise _unread(index, position)
        if record is None:  # no event that is known under its kind
            return Record(header, UnknownEvent(index.contents.kinds[index.kind[position]], {}))
        return record


def _bytes(index: Index, files: Sequence[int], position: int) -> bytes:
    file = files[index.file[position]]
    try:
        return os.pread(file, index.size[position], index.at[position])
    except OSError:
        return b""


def _unread(index: Index, position: int) -> Unread:
    contents, rank = index.contents, index.rank[position]
    header = Header(
        contents.processes[index.process[position]],
        index.seq[position],
        index.time[position],
        rank=None if rank == NO_RANK else rank,
    )
    return Unread(header, contents.kinds[index.kind[position]], contents.files[index.file[position]])


def _opened(path: Path) -> int:
    try:
        return Descriptor(path)
    except OSError:
        return _NONE


class _OfType(Records):
    """Events of one type: lines of its kind that are not whole events are passed over."""

    def __init__(self, index: Index, files: Sequence[int], chosen: Sequence[int], type: type[Any]) -> None:
        super().__init__(index, files, chosen)
        self._type = type

    def __iter__(self) -> Iterator[Record]:
        return (record for record in super().__iter__() if type(record.event) is self._type)


class ById(Mapping[str, Record]):
    """`process:seq` -> event."""

    def __init__(self, log: IndexedLog) -> None:
        self._log = log

    def __getitem__(self, id: str) -> Record:
        position = self._log.position(id)
        if position is None:
            raise KeyError(id)
        return self._log.records[position]

    def __iter__(self) -> Iterator[str]:
        return (record.id for record in self._log.records)

    def __len__(self) -> int:
        return len(self._log.records)


class IndexedLog(Log):
    """A log over an index. What is asked of it is what is asked of any log."""

    def __init__(self, folder: Path, index: Index, files: Sequence[int] | None = None) -> None:
        contents = index.contents
        files = files or [_opened(folder / name) for name in contents.files]
        counts = Counter(index.kind)
        unknown = {contents.kinds[k]: n for k, n in counts.items() if contents.kinds[k] not in KINDS}
        super().__init__(
            folder,
            read_manifest(folder),
            Records(index, files, range(len(index))),
            damaged=contents.damaged,
            unknown=unknown,
            partial=contents.partial,
            lost=read_markers(folder),
            unreadable=contents.unreadable,
        )
        object.__setattr__(self, "_index", index)
        object.__setattr__(self, "_files", files)
        object.__setattr__(self, "_few", {})

    _index: Index
    _files: Sequence[int]
    _few: dict[type, list[Record]]

    @cached_property
    def _by_kind(self) -> dict[str, array[int]]:
        found = {name: array("I") for name in self._index.contents.kinds}
        add = [found[name].append for name in self._index.contents.kinds]
        for position, kind in enumerate(self._index.kind):
            add[kind](position)
        return found

    @cached_property
    def _by_process(self) -> list[array[int]]:
        found = [array("I") for _ in self._index.contents.processes]
        for position, process in enumerate(self._index.process):
            found[process].append(position)
        return found

    def of(self, kind: type[Any]) -> Any:
        known: list[Record] | None = self._few.get(kind)
        if known is not None:
            return known
        positions = self._by_kind.get(kind.__struct_config__.tag, array("I"))
        found = _OfType(self._index, self._files, positions, kind)
        if len(positions) > FEW:
            return found
        kept = self._few[kind] = list(found)
        return kept

    def among(self, kinds: Sequence[type[Any]]) -> Sequence[Record]:
        tags = [self._by_kind.get(kind.__struct_config__.tag, array("I")) for kind in kinds]
        return Records(self._index, self._files, array("I", merge(*tags)))

    @cached_property
    def by_id(self) -> Mapping[str, Record]:
        return ById(self)

    @cached_property
    def ends(self) -> dict[str, tuple[float, float]]:
        times = self._index.time
        return {
            name: (times[found[0]], times[found[-1]])
            for name, found in zip(self._index.contents.processes, self._by_process, strict=True)
            if found
        }

    def position(self, id: str) -> int | None:
        name, _, number = id.rpartition(":")
        if name not in self._index.contents.processes or not number.isdecimal():
            return None
        mine, seq = self._by_process[self._index.contents.processes.index(name)], int(number)
        found = bisect.bisect_left(mine, seq, key=self._index.seq.__getitem__)
        if found < len(mine) and self._index.seq[mine[found]] == seq:
            return mine[found]
        return None

    def of_rank(self, rank: int) -> IndexedLog:
        ranks = self._index.rank
        return IndexedLog(
            self.folder, self._index.only([n for n in range(len(ranks)) if ranks[n] == rank]), self._files
        )

    def select(self, kinds: Sequence[str], ranks: Sequence[int], texts: Sequence[str]) -> Sequence[int]:
        chosen: Sequence[int] = range(len(self._index))
        if kinds:
            named = [n for n in self._index.contents.kinds if any(kind in n for kind in kinds)]
            chosen = array("I", merge(*(self._by_kind[name] for name in named)))
        if ranks:
            rank, wanted = self._index.rank, {NO_RANK if r is None else r for r in ranks}
            chosen = array("I", (n for n in chosen if rank[n] in wanted))
        for text in texts:
            chosen = self._holding(text.lower().encode(), chosen)
        return chosen

    def _holding(self, text: bytes, chosen: Sequence[int]) -> Sequence[int]:
        index, files = self._index, self._files
        return array(
            "I",
            (n for n in chosen if text in _bytes(index, files, n).lower()),
        )
