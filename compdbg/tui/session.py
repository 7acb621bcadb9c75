"""The run that is being looked at: opened in the background, read again as it grows, views kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
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
from compdbg.store.reader import CannotRead, Log, read_head
from compdbg.store.watch import Change, Watch
from compdbg.views.base import Source, View
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.apart import Failed, Tell, by_itself, stop
from compdbg.views.explorer.base import Place
from compdbg.views.explorer.events import events_view
from compdbg.views.explorer.home import known_at_once
from compdbg.views.explorer.kept import KEPT, KeptRows, kept_view

FOLLOWED = 32_000_000
"""Bytes of events up to which a run is followed: more would take seconds and memory at each look."""


def work_out(folder: Path, told: Tell) -> None:
    """Have everything about a long run worked out by a process of its own, and kept; it may fail to."""
    with suppress(Failed):
        by_itself("compdbg.views.explorer.keep", str(folder), told=told)


class Session:
    """A run, its views as far as they were asked for, and which rank of it is shown."""

    def __init__(self, folder: Path, *, follow: bool = False) -> None:
        self.folder = folder
        self.follow = follow
        self.is_long = False
        """Pages of a long run may take a moment: they are made in a thread."""
        self.known: list[str] = []
        """What is known of a run before it has been read."""
        self.source: Source | None = None
        self.rank: int | None = None
        self.filter = ""
        self.change: Change | None = None
        """What has happened to the log since it was read, other than that it grew."""
        self._tail = Tail(folder)
        self._watch = Watch(folder)
        self._views: dict[str, View] = {}
        self._current: set[str] = set()
        """The views that are of the run as it is now; others are of what it was, until they are made anew."""
        self._readings = 0
        self._chosen: View | None = None
        """The events that were let through by `_chosen_by`: of which reading, rank and filter."""
        self._chosen_by: tuple[int, int | None, str] = (0, None, "")
        self._left = False
        self._anew: Session | None = None
        """The run as it is being read again."""

    def leave(self) -> None:
        """Nobody looks any longer: what is still being worked out is given up."""
        self._left = True
        if self._anew is not None:
            self._anew.leave()
        stop()

    def open(self, told: Tell) -> None:
        """Read the run and work out its findings; takes its time, and is called from a thread."""
        told("reading the log", None)
        self._watch.look()
        if self.folder.is_file():
            self._take(read_report(self.folder), told)
            return
        if is_long(self.folder) and (self._open_long(told) or self._left):
            return
        self._watch.look()
        self._take(self._tail.read(), told)

    def _open_long(self, told: Tell) -> bool:
        """By the index and the views that are kept of the run, which are made first if need be."""
        source = self._kept()
        if source is None:
            self.known = known_at_once(Run(read_head(self.folder)).summary)
            work_out(self.folder, told)
            self._watch.look()
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
        self._current = set(self._views)
        found = [row for row in self._views["home"].items if isinstance(row, Finding)]
        return Source(Run(IndexedLog(self.folder, index)), found)

    def open_again(self, told: Tell) -> Session:
        """The run read anew, for `adopt`; what is shown stays as it is. Called from a thread.

        Raises:
            CannotRead: it can't be read.
        """
        self._anew = Session(self.folder, follow=self.follow)
        self._anew.open(told)
        return self._anew

    def adopt(self, anew: Session) -> None:
        """Show the run as it was read again."""
        self.source, self.is_long, self.known = anew.source, anew.is_long, anew.known
        self.change, self._watch, self._tail = None, anew._watch, anew._tail
        self._views, self._current, self._chosen = anew._views, anew._current, None
        self._readings += 1
        self.rank = self.rank if self.rank in self.ranks else None
        self._anew = None

    def look_at_log(self) -> bool:
        """See what has become of the log; whether something has that was not seen before."""
        before, self.change = self.change, self._watch.change()
        return self.change is not None and self.change != before

    @property
    def is_too_long(self) -> bool:
        """Whether a run that is followed has become one to be indexed, and not to be read again and again."""
        return self._tail.length > FOLLOWED

    def grow(self) -> bool:
        """Read what was written since, of a log that only grew; whether there was anything.

        Raises:
            CannotRead: it has become a run of a newer major schema.
        """
        if self.look_at_log() or self.change is not None:
            return False
        self._watch.look()
        tail = self._tail
        log = tail.read_more()
        if log is None or tail is not self._tail:  # read again meanwhile
            return False
        self._take(log, lambda what, part: None)
        return True

    def _take(self, log: Log, told: Tell) -> None:
        run = Run(log)
        told("working out findings", None)
        source = Source(run, find_all(run))
        home = PLACES["home"].view(source)
        self.source, self._current = source, {"home"}
        self._views["home"] = home
        self._readings += 1

    def made(self, place: Place) -> bool:
        """Whether there is a view of the place to show, be it of the run as it was."""
        if place.name == "events" and self._chosen is not None:
            return self.current(place) or self._chosen_by[1:] == self._wanted[1:]
        return self.current(place) or place.name in self._views

    def current(self, place: Place) -> bool:
        """Whether the view of the place is of the run as it is now; if not, `make` it."""
        if place.name == "events":
            return self._wants_all or (self._chosen is not None and self._chosen_by == self._wanted)
        return place.name in self._current or (place.name not in PLACES and place.slow_view is None)

    def make(self, place: Place, told: Tell) -> None:
        """Work out the view of a place; may take seconds, and is called from a thread."""
        source, wanted = self.source, self._wanted
        assert source is not None
        if place.name == "events":
            _, rank, filter = wanted
            self._chosen, self._chosen_by = events_view(source, filter, rank), wanted
            return
        try:
            view = place.view(source) if place.slow_view is None else place.slow_view(source, told)
        except CannotRead as problem:
            said = str(problem)
            view = View(name=place.name, title=place.title, items=(), columns=(), lines=[said], empty=said)
        self._views[place.name] = view
        if source is self.source:
            self._current.add(place.name)

    def view(self, place: Place, *, everything: bool = False) -> View:
        """The view of a place for the rank that is shown; `everything`: also rows that say little."""
        assert self.source is not None
        if place.name == "events":
            return events_view(self.source) if self._wants_all or self._chosen is None else self._chosen
        if place.name not in PLACES and place.slow_view is None:
            return _narrowed(place.view(self.source), self.rank, everything)
        return _narrowed(self._views[place.name], self.rank, everything)

    @property
    def _wanted(self) -> tuple[int, int | None, str]:
        return self._readings, self.rank, self.filter

    @property
    def _wants_all(self) -> bool:
        return self.rank is None and not self.filter

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
