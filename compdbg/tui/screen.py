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

from compdbg.tui import keys
from compdbg.tui.actions import Actions
from compdbg.tui.bars import Bar, Footer, Header, Summary, Tabs
from compdbg.tui.lines import LineView
from compdbg.tui.pane import Pane
from compdbg.tui.session import Session
from compdbg.tui.table import Table
from compdbg.tui.trail import Level
from compdbg.views.base import View
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.base import Page
from compdbg.views.explorer.events import EventItems
from compdbg.views.explorer.kept import KeptRows

BESIDE = 130
"""Columns from which on the page stands beside the list and not below it."""
SOUGHT = 20_000
"""Rows among which the one is looked for that a finding is about, or that was current."""
DIGITS_S = 1.2
"""Digits that come within this time are one number."""


class Main(Actions):
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
        self._view: View | None = None
        self._typed = ""
        self._typed_at = 0.0
        self.doing: tuple[str, float | None] = ("opening", None)

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
            self.explorer.prepare(level.place)
        self.frame()
        self.set_focus(self.pane if level.page else self.table)

    def grown(self) -> None:
        """The run has grown, or a view of it was made anew: new rows, and nothing else moves."""
        level = self.level
        if level.own is not None or self.session.source is None:
            return
        if not self.session.current(level.place):
            self.explorer.prepare(level.place)
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

    def page_of_row(self) -> Page | None:
        source, row = self.session.source, self.table.current
        if source is None or row is None or self._view is None:
            return None
        return self.level.place.page(source, row)

    def show_row(self, *, keep: bool) -> None:
        """The page of the current row, beside its list or alone."""
        row = self.table.current
        waits = row is not None and self.level.place.slow_page(row)
        if waits or (self.session.is_long and self.level.place.name != "home"):
            self.explorer.make_page(keep=keep)
        else:
            self.pane.show_page(self.page_of_row(), keep=keep)

    def frame(self) -> None:
        """The lines above and below: trail, places, sums, keys."""
        session, level = self.session, self.level
        trail = ["compdbg", *(self._title_of(one) for one in self.trail)]
        right = [(session.folder.name, "dim")]
        if session.ranks:
            right.append(("all ranks" if session.rank is None else f"rank {session.rank}", "dim"))
        right += [(state, "warn") for state in self.explorer.states]
        self.query_one(Header).show(trail, right)
        tabs = [(place.letter, place.title, place.name) for place in PLACES.values()]
        here = next((one.place.name for one in reversed(self.trail) if one.place.name in PLACES), "")
        self.query_one(Tabs).show(tabs, here)
        self.query_one(Summary).show(self._said(), self._room())
        self.query_one(Footer).show(self._keys(level), self.note)

    def _title_of(self, level: Level) -> str:
        if level.own is not None:
            return level.own.title
        if level is self.level and level.page and self.pane.page is not None:
            level.title = self.pane.page.title
        return level.title if level.page and level.title else level.place.title

    def _room(self) -> int:
        height = self.app.size.height
        most = 6 if self.level.place.name == "home" else 3
        return 1 if self.level.page else most if height >= 24 else 2

    def _said(self) -> list[tuple[str, str]]:
        view = self._view
        if self.level.own is not None:
            return [(self._title_of(self.level), "title")]
        if view is None:
            what, part = self.doing
            done = "" if part is None else f"  {'█' * int(30 * part):░<30} {part:4.0%}"
            return [
                (f"{what} …{done}", "title"),
                *((line, "") for line in self.session.known if not self.session.source),
            ]
        if self.level.page:
            at = f"{self.table.cursor + 1} of {len(view.items)}"
            return [(f"{at} in {self.level.place.title}", "dim")]
        titled = [(view.title, "title")] if self.level.place.name in ("home", "events") else []
        return [*titled, *((line, "" if titled or n else "title") for n, line in enumerate(view.lines))]

    def _keys(self, level: Level) -> list[tuple[str, str, str]]:
        page = self.pane.page
        if self._view is None:
            return self._named(["back"] * (len(self.trail) > 1) + ["help", "palette", "quit"])
        wanted = ["open"] if not level.page or (page is not None and page.leads_to) else []
        wanted += ["back"] if len(self.trail) > 1 else []
        wanted += ["search"]
        wanted += ["next-match"] if self.sought else []
        wanted += ["previous", "next"] if level.page and level.own is None else []
        wanted += ["show-all"] if level.place.name in ("fusion", "time") and not level.page else []
        wanted += ["edit"] if page is not None and page.where else []
        wanted += ["copy"] if page is not None else []
        wanted += ["rank"] if len(self.session.ranks) > 1 else []
        return self._named([*wanted, "write", "help", "palette", "quit"])

    def _named(self, wanted: Sequence[str]) -> list[tuple[str, str, str]]:
        """Key, word and action of each; a key may be the user's own."""
        level = self.level
        words = {
            "open": "proof" if level.page else "open", "back": "back",
            "search": "filter" if level.place.name == "events" and not level.page else "search",
            "next-match": "next match", "previous": "prev", "next": "next",
            "show-all": "less" if level.everything else "all", "edit": "editor", "copy": "copy",
            "rank": "rank", "write": "html", "help": "keys", "palette": "palette", "quit": "quit",
        }  # fmt: skip
        actions = {action.id: action for action in keys.ACTIONS}
        bound = self.explorer.settings.keys
        return [
            (keys.shown_key(bound.get(id, actions[id].keys)), words[id], actions[id].action) for id in wanted
        ]

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
