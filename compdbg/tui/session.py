"""The run that is being looked at: opened in the background, read again as it grows, views kept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run
from compdbg.store.embedded import read_report
from compdbg.store.follow import Tail
from compdbg.store.index import is_long, read_index
from compdbg.store.indexed import IndexedLog
from compdbg.store.reader import Log
from compdbg.views.base import Source, View
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.base import Place
from compdbg.views.explorer.events import events_view
from compdbg.views.explorer.kept import KEPT, KeptRows, kept_view

FOLLOWED = 32_000_000
"""Bytes of events up to which a run is followed: more would take seconds and memory at each look."""
Progress = Callable[[str, float | None], None]
"""Told what is being done, and which part of it is."""


def work_out(folder: Path, progress: Progress) -> None:
    """Have everything about a long run worked out by a process of its own, and say how far that is."""
    command = [sys.executable, "-m", "compdbg.views.explorer.keep", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            part, _, what = line.strip().partition(" ")
            progress(what, float(part))


class Session:
    """A run, its views as far as they were asked for, and which rank of it is shown."""

    def __init__(self, folder: Path, *, follow: bool = False) -> None:
        self.folder = folder
        self.follow = follow
        self.is_long = False
        """Pages of a long run may take a moment: they are made in a thread."""
        self.source: Source | None = None
        self.rank: int | None = None
        self.filter = ""
        self._tail = Tail(folder)
        self._views: dict[str, View] = {}

    def open(self, progress: Progress) -> None:
        """Read the run and work out its findings; takes its time, and is called from a thread."""
        progress("reading the log", None)
        if self.folder.is_file():
            self._take(read_report(self.folder), progress)
            return
        if is_long(self.folder) and self._open_long(progress):
            return
        log = self._tail.read()
        self._take(log, progress)

    def _open_long(self, progress: Progress) -> bool:
        """By the index and the views that are kept of the run, which are made first if need be."""
        source = self._kept()
        if source is None:
            work_out(self.folder, progress)
            source = self._kept(grown=True)
        if source is None:
            return False
        self.is_long = True
        self.source = source
        return True

    def _kept(self, *, grown: bool = False) -> Source | None:
        index = read_index(self.folder, grown=grown)
        views = {name: kept_view(PLACES[name], self.folder) for name in KEPT} if index is not None else {}
        if index is None or None in views.values():
            return None
        self._views = {name: view for name, view in views.items() if view is not None}
        found = [row for row in self._views["home"].items if isinstance(row, Finding)]
        return Source(Run(IndexedLog(self.folder, index)), found)

    @property
    def is_too_long(self) -> bool:
        """Whether a run that is followed has become one to be indexed, and not to be read again and again."""
        return self._tail.length > FOLLOWED

    def grow(self) -> bool:
        """Read what was written since; whether there was anything."""
        log = self._tail.read_more()
        if log is None:
            return False
        self._take(log, lambda text, part: None)
        return True

    def _take(self, log: Log, progress: Progress) -> None:
        run = Run(log)
        progress("working out findings", None)
        source = Source(run, find_all(run))
        views = {"home": PLACES["home"].view(source)}
        self.source, self._views = source, views

    def made(self, place: Place) -> bool:
        """Whether the place's view is there already."""
        quick = place.name == "events" or (place.name not in PLACES and not place.slow)
        return quick or place.name in self._views

    def view(self, place: Place, *, everything: bool = False) -> View:
        """The view of a place for the rank that is shown; `everything`: also rows that say little."""
        assert self.source is not None
        if place.name == "events":
            return events_view(self.source, self.filter, self.rank)
        if place.name not in PLACES and not place.slow:
            return _narrowed(place.view(self.source), self.rank, everything)
        if place.name not in self._views:
            self._views[place.name] = place.view(self.source)
        return _narrowed(self._views[place.name], self.rank, everything)

    @property
    def ranks(self) -> list[int]:
        return self.source.run.summary.ranks if self.source is not None else []

    def next_rank(self) -> int | None:
        """The rank after the one that is shown; after the last, all of them."""
        known: list[int | None] = [None, *self.ranks]
        self.rank = known[(known.index(self.rank) + 1) % len(known)] if self.rank in known else None
        return self.rank

    def finding(self, id: str) -> Finding | None:
        found = self.source.findings if self.source is not None else []
        return next((f for f in found if f.id == id), None)


def _narrowed(view: View, rank: int | None, everything: bool) -> View:
    """Only the rows worth a line, and only those of a rank or of none."""
    items: Sequence[Struct] = view.items if everything or view.shown is None else view.shown
    if rank is not None and isinstance(items, KeptRows):
        items = items.only(rank)
    elif rank is not None:
        items = [item for item in items if getattr(item, "rank", None) in (None, rank)]
    return msgspec.structs.replace(view, items=items)
