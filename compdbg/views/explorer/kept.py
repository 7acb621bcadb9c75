"""Views of a long run, worked out once and kept on disk beside its index, a row read when it is seen."""

from __future__ import annotations

import bisect
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

import msgspec
from msgspec import Struct

import compdbg
from compdbg.model.run import Run
from compdbg.store.index import NO_RANK, home
from compdbg.store.reader import Log
from compdbg.views.base import Source, View
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.base import Place

KEPT = tuple(name for name in PLACES if name not in ("events", "diff"))
"""Events are read from the log itself; differences are of two runs."""
_encode = msgspec.msgpack.Encoder(enc_hook=str).encode


class _Head(Struct):
    """What of a view is not its rows."""

    version: str
    title: str
    lines: list[str]
    empty: str
    count: int
    shown: list[int] | None


class KeptRows(Sequence[Struct]):
    """Rows of a view on disk, or some of them."""

    def __init__(
        self, file: int, at: array[int], ranks: array[int], row: type, chosen: Sequence[int]
    ) -> None:
        self._file, self._at, self._ranks, self._chosen = file, at, ranks, chosen
        self._decode: Callable[[bytes], Struct] = msgspec.msgpack.Decoder(row).decode
        self._row = row

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
        start, end = self._at[number], self._at[number + 1]
        return self._decode(os.pread(self._file, end - start, start))

    def number(self, index: int) -> int:
        """Which row of the whole view this is."""
        return self._chosen[index]

    def index_of(self, number: int) -> int:
        """Where a row of the whole view stands here, or would stand."""
        return min(bisect.bisect_left(self._chosen, number), max(0, len(self) - 1))

    def only(self, rank: int) -> KeptRows:
        """The rows of one rank, and those of none."""
        ranks = self._ranks
        chosen = array("I", (n for n in self._chosen if ranks[n] in (NO_RANK, rank)))
        return KeptRows(self._file, self._at, ranks, self._row, chosen)


def keep_view(place: Place, view: View, folder: Path) -> None:
    """Write a view of a run.

    Raises:
        OSError: it can't be written.
    """
    kept = home(folder)
    at, ranks = array("Q", [0]), array("i")
    positions: dict[int, int] = {}
    with (kept / f"{place.name}.rows").open("wb") as file:
        for n, row in enumerate(view.items):
            at.append(at[-1] + file.write(_encode(row)))
            rank = getattr(row, "rank", None)
            ranks.append(NO_RANK if rank is None else rank)
            positions[id(row)] = n
    shown = None if view.shown is None else [positions[id(row)] for row in view.shown]
    with (kept / f"{place.name}.places").open("wb") as file:
        at.tofile(file)
        ranks.tofile(file)
    head = _Head(compdbg.__version__, view.title, list(view.lines), view.empty, len(ranks), shown)
    (kept / f"{place.name}.json").write_bytes(msgspec.json.encode(head))


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
        rows = os.open(kept / f"{place.name}.rows", os.O_RDONLY)
    except (OSError, EOFError, ValueError, msgspec.DecodeError):
        return None
    plain = place.view(_nothing(folder))
    return msgspec.structs.replace(
        plain,
        title=head.title,
        lines=head.lines,
        empty=head.empty,
        items=KeptRows(rows, at, ranks, place.row, range(head.count)),
        shown=None if head.shown is None else KeptRows(rows, at, ranks, place.row, array("I", head.shown)),
    )


def _nothing(folder: Path) -> Source:
    """A run without an event: the columns of a view are the same for every run."""
    return Source(Run(Log(folder, {}, [])), [])
