"""Views of a long run, worked out once and kept on disk beside its index, a row read when it is seen."""

from __future__ import annotations

import bisect
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, overload

import msgspec
from msgspec import Struct

import compdbg
from compdbg.findings.base import Finding
from compdbg.model.run import Run
from compdbg.store.files import Descriptor
from compdbg.store.index import NO_RANK, home, whole_file
from compdbg.store.reader import Log
from compdbg.views.base import Source, View
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.base import Place

KEPT = tuple(name for name in PLACES if name not in ("events", "diff"))
"""Events are read from the log itself; differences are of two runs."""
WORST, SOUGHT = 50, 20_000
"""Of so many findings the rows about them are looked for, among so many rows."""
_encode = msgspec.msgpack.Encoder(enc_hook=str).encode


class _Head(Struct):
    """What of a view is not its rows."""

    version: str
    title: str
    lines: list[str]
    empty: str
    count: int
    shown: list[int] | None
    about: dict[str, int]


class _File(NamedTuple):
    """All rows of a view on disk."""

    rows: int
    at: array[int]
    ranks: array[int]
    row: type
    about: dict[str, int]
    """The finding that a row is about, by its id -> the number of the first such row."""


class KeptRows(Sequence[Struct]):
    """Rows of a view on disk, or some of them."""

    def __init__(self, file: _File, chosen: Sequence[int]) -> None:
        self._file, self._chosen = file, chosen
        self._decode: Callable[[bytes], Struct] = msgspec.msgpack.Decoder(file.row).decode

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> Struct: ...
    @overload
    def __getitem__(self, index: slice) -> list[Struct]: ...
    def __getitem__(self, index: int | slice) -> Struct | list[Struct]:
        if isinstance(index, slice):
            return [self._read(n) for n in self._chosen[index]]
        return self._read(self._chosen[index])

    def __iter__(self) -> Iterator[Struct]:
        return map(self._read, self._chosen)

    def _read(self, number: int) -> Struct:
        start, end = self._file.at[number], self._file.at[number + 1]
        return self._decode(os.pread(self._file.rows, end - start, start))

    def number(self, index: int) -> int:
        """Which row of the whole view this is."""
        return self._chosen[index]

    def index_of(self, number: int) -> int:
        """Where a row of the whole view stands here, or would stand."""
        return min(bisect.bisect_left(self._chosen, number), max(0, len(self) - 1))

    def about(self, finding: Finding) -> int:
        """Where the first row about a finding stands here, or would stand; 0 where none is."""
        number = self._file.about.get(finding.id)
        return 0 if number is None else self.index_of(number)

    def only(self, rank: int) -> KeptRows:
        """The rows of one rank, and those of none."""
        ranks = self._file.ranks
        return KeptRows(self._file, array("I", (n for n in self._chosen if ranks[n] in (NO_RANK, rank))))


def keep_view(place: Place, view: View, folder: Path, findings: Sequence[Finding]) -> None:
    """Write a view of a run, and which of its rows are about the findings.

    Raises:
        OSError: it can't be written.
    """
    kept = home(folder)
    at, ranks = array("Q", [0]), array("i")
    positions: dict[int, int] = {}
    with whole_file(kept / f"{place.name}.rows") as file:
        for n, row in enumerate(view.items):
            at.append(at[-1] + file.write(_encode(row)))
            rank = getattr(row, "rank", None)
            ranks.append(NO_RANK if rank is None else rank)
            positions[id(row)] = n
    shown = None if view.shown is None else [positions[id(row)] for row in view.shown]
    with whole_file(kept / f"{place.name}.places") as file:
        at.tofile(file)
        ranks.tofile(file)
    head = _Head(
        compdbg.__version__, view.title, list(view.lines), view.empty, len(ranks), shown,
        _about(place, view, positions, findings),
    )  # fmt: skip
    with whole_file(kept / f"{place.name}.json") as file:
        file.write(msgspec.json.encode(head))


def _about(
    place: Place, view: View, positions: dict[int, int], findings: Sequence[Finding]
) -> dict[str, int]:
    """Which of the rows that are shown is the first about each of the worst findings."""
    rows = view.items if view.shown is None else view.shown
    found: dict[str, int] = {}
    for finding in findings[:WORST]:
        row = next((row for row in islice(rows, SOUGHT) if place.about(row, finding)), None)
        if row is not None:
            found[finding.id] = positions[id(row)]
    return found


def kept_view(place: Place, folder: Path) -> View | None:
    """A view as it was kept; None where it was not, or by another version."""
    kept = home(folder)
    try:
        head = msgspec.json.decode((kept / f"{place.name}.json").read_bytes(), type=_Head)
        if head.version != compdbg.__version__:
            return None
        at, ranks = array("Q"), array("i")
        with (kept / f"{place.name}.places").open("rb") as file:
            at.fromfile(file, head.count + 1)
            ranks.fromfile(file, head.count)
        rows = Descriptor(kept / f"{place.name}.rows")
        if os.fstat(rows).st_size != at[-1]:  # spoiled, or of another writer than the places
            return None
    except (OSError, EOFError, ValueError, msgspec.DecodeError):
        return None
    stored = _File(rows, at, ranks, place.row, head.about)
    plain = place.view(_nothing(folder))
    return msgspec.structs.replace(
        plain,
        title=head.title,
        lines=head.lines,
        empty=head.empty,
        items=KeptRows(stored, range(head.count)),
        shown=None if head.shown is None else KeptRows(stored, array("I", head.shown)),
    )


def _nothing(folder: Path) -> Source:
    """A run without an event: the columns of a view are the same for every run."""
    return Source(Run(Log(folder, {}, [])), [])
