"""What the keys do. Every action is one method, named in the table of `keys`."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from textual.screen import Screen
from textual.widgets import Input

from compdbg.tui import keys
from compdbg.tui.editor import NoEditor, edit, editor_command
from compdbg.tui.pane import Pane
from compdbg.tui.session import Session
from compdbg.tui.table import Table
from compdbg.tui.trail import Level
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.base import Place, as_markdown

if TYPE_CHECKING:
    from compdbg.tui.app import Explorer

SLICE_S = 0.01
"""How long is searched at a stretch: keys are answered in between."""
TELL_S = 0.3


class Actions(Screen[None]):
    """The actions of the main screen, and what they work on."""

    session: Session
    trail: list[Level]

    def __init__(self) -> None:
        super().__init__()
        self._left: dict[str, Level] = {}
        """Places as they were left."""
        self.sought = ""
        self.note = ""
        self.noted_at = 0
        """The row at which the note was made."""

    @property
    def explorer(self) -> Explorer:
        return cast("Explorer", self.app)

    @property
    def level(self) -> Level:
        return self.trail[-1]

    @property
    def table(self) -> Table:
        return self.query_one(Table)

    @property
    def pane(self) -> Pane:
        return self.query_one(Pane)

    @abstractmethod
    def show(self) -> None:
        """Draw the current level anew."""

    @abstractmethod
    def frame(self) -> None:
        """Draw the lines above and below."""

    @abstractmethod
    def remember(self) -> None:
        """Keep in the level what is current in it."""

    @abstractmethod
    def show_row(self, *, keep: bool) -> None:
        """Draw the page of the current row."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are answered at once and in turn (`priority`), but letters are text while one writes."""
        return action == "back" or not isinstance(self.focused, Input)

    def action_go(self, name: str, finding: str = "") -> None:
        """To a place: as it was left, or at what a finding is about."""
        self.remember()
        here = self.trail[0] if len(self.trail) == 1 else None
        if here is not None:
            self._left[here.place.name] = here
        self.note = ""
        if finding:
            self.trail.append(Level(PLACES[name], finding=finding))
        else:
            self.trail[:] = [self._left.get(name) or Level(PLACES[name])]
        self.show()

    def action_enter(self) -> None:
        """Open the current row: its own list, or its page; from a page, the place that proves it."""
        level, source = self.level, self.session.source
        if source is None or level.own is not None:
            return
        if level.page:
            leads_to = self.pane.page.leads_to if self.pane.page is not None else None
            if leads_to is not None:
                self.action_go(*leads_to)
            return
        row = self.table.current
        if row is None:
            return
        self.remember()
        if level.place.inside is not None and self.session.is_long:
            self.explorer.background.open_inside(level, row)
        else:
            self.entered(level, level.place.inside(source, row) if level.place.inside is not None else None)

    def entered(self, level: Level, inside: Place | None) -> None:
        """Into the list that a row opens, or where it opens none into its page."""
        self.trail.append(Level(inside) if inside is not None else replace(level, page=True, finding=""))
        self.show()

    def action_back(self) -> None:
        box = self.query_one("#search", Input)
        if box.display:
            box.display = False
            self.set_focus(self.pane if self.level.page else self.table)
            return
        if len(self.trail) == 1:
            if self.level.place.name != "home":
                self.action_go("home")
            return
        self.remember()
        left = self.trail.pop()
        if left.page and left.own is None and self.level.place is left.place:
            self.level.key, self.level.top, self.level.number = left.key, left.top, left.number
        self.show()

    def action_sibling(self, step: int) -> None:
        """The page of the row before or after."""
        self.table.move_to(self.table.cursor + step)
        self.show_row(keep=False)
        self.frame()

    def action_everything(self) -> None:
        self.remember()
        self.level.everything = not self.level.everything
        self.show()

    def action_other_pane(self) -> None:
        self.set_focus(self.table if self.pane.has_focus and not self.level.page else self.pane)

    def action_search(self) -> None:
        box = self.query_one("#search", Input)
        is_filter = self.level.place.name == "events" and not self.level.page
        box.placeholder = "kind:guard rank:1 piece:3 text" if is_filter else "search"
        box.value = self.session.filter if is_filter else self.sought
        box.display = True
        self.set_focus(box)  # at once: what is typed next is for it, however fast

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.display = False
        if self.level.place.name == "events" and not self.level.page:
            self.session.filter = event.value.strip()
            self.level.key, self.level.top = "", 0
            self.show()
            return
        self.sought = event.value.strip().lower()
        for widget in (self.table, self.pane):
            widget.sought = self.sought
            widget.refresh()
        self.set_focus(self.pane if self.level.page else self.table)
        if self.sought:
            self.action_next_match(0)
        self.frame()

    def action_next_match(self, step: int) -> None:
        """To the next match (`-1`: the one before; `0`: here or the next)."""
        if not self.sought:
            return
        if self.level.page or self.pane.has_focus:
            if not self.pane.seek(self.sought, step or 1):
                self.say(f"{self.sought} is not on this page")
            return
        self.run_worker(self._seek(step), exclusive=True, group="search")

    async def _seek(self, step: int) -> None:
        """Go through the rows in slices; a key that is pressed meanwhile is answered."""
        table, items, first = self.table, self.table.items, self.table.cursor
        count, began, told = len(items), time.monotonic(), time.monotonic()
        for n in range(step != 0, count + (step != 0)):
            index = (first + (step or 1) * n) % count
            if self.sought in table.text_of(index).lower():
                table.move_to(index)
                self.show_row(keep=False)
                self.say("")
                return
            if time.monotonic() - began > SLICE_S:
                await asyncio.sleep(0)
                if table.items is not items:
                    return
                began = time.monotonic()
                if began - told > TELL_S:
                    told = began
                    self.say(f"searching {self.sought}: {n / count:.0%}")
        self.say(f"no row holds {self.sought}")

    def say(self, text: str) -> None:
        """A word at the foot of the screen, until one moves on."""
        self.note, self.noted_at = text, self.table.cursor
        self.frame()

    def action_copy(self) -> None:
        page = self.pane.page
        if page is None:
            return
        self.explorer.background.copy(as_markdown(page))

    def action_edit(self) -> None:
        where = self.pane.page.where if self.pane.page is not None else None
        if where is None:
            self.say("no source line here")
            return
        try:
            editor_command(where)
        except NoEditor as problem:
            self.say(str(problem))
            return
        with self.explorer.suspend():
            edit(where)
        self.explorer.refresh(layout=True)

    def action_write(self) -> None:
        self.explorer.background.write_report()

    def action_rank(self) -> None:
        if not self.session.ranks:
            self.say("this run has no ranks")
            return
        self.session.next_rank()
        self.remember()
        self.show()

    def start_over(self) -> None:
        """The run was read anew: what was opened from rows of before is left."""
        self.trail[:] = [one for one in self.trail if one.place.name in PLACES]
        self.note = ""

    def action_reload(self) -> None:
        self.explorer.reading.again()

    def action_help(self) -> None:
        if self.level.own is not None:
            self.action_back()
            return
        self.remember()
        self.trail.append(Level(self.level.place, page=True, own=keys.keys_page(self.level.place.title)))
        self.show()

    def action_palette(self) -> None:
        self.explorer.action_command_palette()

    def action_quit(self) -> None:
        self.explorer.exit()
