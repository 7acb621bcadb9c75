"""The one screen: a place's list and the page of its current row, or that page alone; a trail of both."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Input

from compdbg.store.reader import CannotRead
from compdbg.tui import keys
from compdbg.tui.bars import Bar, Footer, Header, Summary, Tabs
from compdbg.tui.frame import Framed
from compdbg.tui.lines import LineView
from compdbg.tui.pane import Pane
from compdbg.tui.session import Session
from compdbg.tui.table import Table
from compdbg.tui.trail import Level
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.base import Fact, Page
from compdbg.views.explorer.events import EventItems
from compdbg.views.explorer.kept import KeptRows

BESIDE = 130
"""Columns from which on the page stands beside the list and not below it."""
SOUGHT = 20_000
"""Rows among which the one is looked for that a finding is about, or that was current."""
DIGITS_S = 1.2
"""Digits that come within this time are one number."""


class Main(Framed):
    """Shows the last level of its trail."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(a.keys, a.action, a.text, id=a.id, show=False, priority=True) for a in keys.ACTIONS
    ]
    DEFAULT_CSS = """
    Main {
        layout: vertical;
        & #body { layout: vertical; height: 1fr; }
        & Table { height: 1fr; }
        & Pane { height: 1fr; border-top: solid $edge; }
        & Pane:focus { border-top: solid $primary; }
        &.-beside #body { layout: horizontal; }
        &.-beside Table { width: 11fr; }
        &.-beside Pane { width: 9fr; border-top: none; border-left: solid $edge; }
        &.-beside Pane:focus { border-left: solid $primary; }
        & Pane.-alone, & Pane.-alone:focus { border: none; }
        &.-beside Pane.-alone, &.-beside Pane.-alone:focus { border: none; }
        &.-ascii LineView { scrollbar-size-vertical: 0; }
        &.-ascii Pane { border-top: ascii $edge; }
        &.-ascii.-beside Pane { border-top: none; border-left: ascii $edge; }
        & #search { display: none; height: 1; border: none; padding: 0 1; background: $surface; }
    }
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.trail = [Level(PLACES["home"])]
        self._typed = ""
        self._typed_at = 0.0

    def compose(self) -> ComposeResult:
        yield Header()
        yield Tabs()
        yield Summary()
        with Container(id="body"):
            yield Table()
            yield Pane()
        yield Input(id="search", compact=True)
        yield Footer()

    def on_mount(self) -> None:
        unicode = self.explorer.unicode
        for widget in self.query(LineView):
            widget.unicode = unicode
        for bar in self.query(Bar):
            bar.unicode = unicode
        self.set_class(not unicode, "-ascii")
        self.show()

    def on_resize(self) -> None:
        self.set_class(self.app.size.width >= BESIDE, "-beside")
        self.frame()
        self.call_after_refresh(self.frame)

    def show(self) -> None:
        """Draw the current level anew."""
        level = self.level
        source = self.session.source
        self.table.display = not level.page
        self.pane.set_class(level.page, "-alone")  # not of the screen: all in it would be styled anew
        if level.own is not None:
            self.pane.show_page(level.own)
        elif source is None or not self.session.made(level.place):
            self._view = None
            self.table.show_rows((), (), "")
            self.pane.show_page(None)
        else:
            self._show_rows(level)
            if level.top or level.key:
                self.table.scroll_row(level.top)
            self.table.keep_in_view()
            self.show_row(keep=False)
        if source is not None and not self.session.current(level.place):
            self.explorer.background.prepare(level.place)
        self.frame()
        self.set_focus(self.pane if level.page else self.table)

    def grown(self) -> None:
        """The run has grown, or a view of it was made anew: new rows, and nothing else moves."""
        level = self.level
        if level.own is not None or self.session.source is None:
            return
        if not self.session.current(level.place):
            self.explorer.background.prepare(level.place)
            return
        if self._view is None:
            self.show()
            return
        self.remember()
        self._show_rows(level)
        self.table.scroll_row(level.top)
        self.show_row(keep=True)
        self.frame()

    def _show_rows(self, level: Level) -> None:
        self._view = self.session.view(level.place, everything=level.everything)
        rows = self._view.items
        self.table.show_rows(rows, self._view.columns, self._view.empty, self._position(level, rows))

    def _position(self, level: Level, rows: Sequence[Struct]) -> int:
        """Which row is current: the one that was, or the first that the finding is about."""
        finding = self.session.finding(level.finding) if level.finding else None
        if not level.key and finding is None:
            return 0
        if isinstance(rows, EventItems):
            proof = finding.evidence[0] if finding is not None and finding.evidence else ""
            return self._event_position(level.key or proof, rows)
        if isinstance(rows, KeptRows):
            return rows.index_of(level.number) if level.key or finding is None else rows.about(finding)
        for n, row in enumerate(itertools.islice(rows, SOUGHT)):
            if level.place.key(row) == level.key:
                return n
            if not level.key and finding is not None and level.place.about(row, finding):
                return n
        return self.table.cursor if level.key else 0

    def _event_position(self, id: str, rows: EventItems) -> int:
        """Events are found by their id through the log, and not by going through them all."""
        source = self.session.source
        position = source.run.log.position(id) if source is not None else None
        return 0 if position is None else rows.index_of(position)

    def remember(self) -> None:
        """Keep in the level what is current in it."""
        level = self.level
        row = self.table.current
        if level.own is None and row is not None:
            level.key = level.place.key(row)
            level.top = self.table.scroll_offset.y
            if isinstance(self.table.items, KeptRows):
                level.number = self.table.items.number(self.table.cursor)

    def page_of(self, row: Struct | None) -> Page | None:
        source = self.session.source
        if source is None or row is None or self._view is None:
            return None
        try:
            return self.level.place.page(source, row)
        except CannotRead as problem:
            return Page(title=self.level.place.title, blocks=[Fact("", str(problem), "warn")])

    def show_row(self, *, keep: bool) -> None:
        """The page of the current row, beside its list or alone."""
        row = self.table.current
        waits = row is not None and self.level.place.slow_page(row)
        if waits or (self.session.is_long and self.level.place.name != "home"):
            self.explorer.background.make_page(keep=keep)
        else:
            self.pane.show_page(self.page_of(row), keep=keep)

    def on_table_moved(self) -> None:
        self.show_row(keep=False)
        if self.note and self.table.cursor != self.noted_at:
            self.note = ""
            self.frame()

    def on_table_chosen(self) -> None:
        self.action_enter()

    def on_key(self, event: events.Key) -> None:
        """Digits go to the row that has that number."""
        number = self.level.place.number
        if number is None or not event.is_printable or not (event.character or "").isdecimal():
            return
        now = time.monotonic()
        self._typed = (self._typed if now - self._typed_at < DIGITS_S else "") + (event.character or "")
        self._typed_at = now
        wanted = int(self._typed)
        numbers = [(number(row), n) for n, row in enumerate(self.table.items)]
        at_least = [(found, n) for found, n in numbers if found is not None and found >= wanted]
        if at_least:
            found, n = min(at_least)
            self.table.move_to(n)
            self.show_row(keep=False)
            self.say(f"size {wanted}" if found == wanted else f"size {wanted}: the next is {found}")
        else:
            self.say(f"no size of {wanted} or more")
        event.stop()
