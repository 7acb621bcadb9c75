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

from compdbg.events import UnknownEvent
from compdbg.store.index import NO_RANK, Index
from compdbg.store.reader import KINDS, Log, Record, decode_line, read_manifest, read_markers

FEW = 20_000
"""So many events of a kind are kept once they were read."""


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
        index = self._index
        line = os.pread(self._files[index.file[position]], index.size[position], index.at[position])
        record = decode_line(line)
        return record if record is not None else _unread(index, position)


def _unread(index: Index, position: int) -> Record:
    """A line with a header and no event that is known under its kind."""
    from compdbg.events import Header

    contents = index.contents
    header = Header(contents.processes[index.process[position]], index.seq[position], index.time[position])
    return Record(header, UnknownEvent(contents.kinds[index.kind[position]], {}))


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
        files = files or [os.open(folder / name, os.O_RDONLY) for name in contents.files]
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
        found = Records(self._index, self._files, positions)
        if len(positions) > FEW:
            return found
        kept = self._few[kind] = [r for r in found if type(r.event) is kind]
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
            (n for n in chosen if text in os.pread(files[index.file[n]], index.size[n], index.at[n]).lower()),
        )
