"""The application: opens the run in the background, follows it, and holds the one screen."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from compdbg.store.embedded import is_report
from compdbg.store.reader import CannotRead
from compdbg.tui import keys
from compdbg.tui.clipboard import at_home, copy
from compdbg.tui.glyphs import has_unicode
from compdbg.tui.palette import Findings, Palette
from compdbg.tui.pane import Pane
from compdbg.tui.screen import Main
from compdbg.tui.session import Session
from compdbg.tui.table import Table
from compdbg.tui.themes import THEMES, own_colours
from compdbg.tui.trail import Level
from compdbg.views.explorer.apart import Failed, by_itself
from compdbg.views.explorer.base import Page, Place

EVERY_S = 0.5
"""How often a run that is followed is looked at, at most."""


def _bindable() -> set[str]:
    """The ids of everything that a key can be given to."""
    bound = [*Main.BINDINGS, *Table.BINDINGS, *Pane.BINDINGS]
    return {b.id for b in bound if isinstance(b, Binding) and b.id}


class Explorer(App[None]):
    """`compdbg tui`."""

    TITLE = "compdbg"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = App.COMMANDS | {Findings}
    CSS = "ToastRack { display: none; }"

    def __init__(self, folder: Path, *, follow: bool = False, unicode: bool | None = None) -> None:
        super().__init__()
        self.settings = keys.read_settings(_bindable())
        given = unicode if unicode is not None else self.settings.unicode
        self.unicode = has_unicode() if given is None else given
        self.session = Session(folder, follow=follow)
        self.follow = follow
        self.fault: CannotRead | None = None
        self._main: Main | None = None
        self._pause = EVERY_S
        self._writing_since: float | None = None
        self._making: set[str] = set()
        for theme in THEMES:
            self.register_theme(theme)

    def exit(self, *arguments: Any, **named: Any) -> None:
        self.session.leave()
        super().exit(*arguments, **named)

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        return {**variables, **own_colours(variables)}

    @property
    def states(self) -> list[str]:
        """What is said at the top right: that the run is not at its end, that its report is being written."""
        source, since = self.session.source, self._writing_since
        said = [] if since is None else [f"writing HTML, {time.monotonic() - since:.0f} s"]
        if source is None:
            said.append("opening")
        elif not source.run.summary.complete:
            said.append("live" if self.follow else "not ended")
        return said

    @property
    def main(self) -> Main:
        assert self._main is not None
        return self._main

    def on_mount(self) -> None:
        self._main = Main(self.session)
        wanted = self.settings.theme or "compdbg-dark"
        self.theme = wanted if wanted in self.available_themes else "compdbg-dark"
        if self.settings.keys:
            self.set_keymap(self.settings.keys)
        self.push_screen(self._main)
        if self.settings.faults:
            self._main.note = self.settings.faults[0]
        self.run_worker(self._open, thread=True, group="read")

    def _open(self) -> None:
        try:
            self.session.open(self._progress)
        except CannotRead as fault:
            self.fault = fault
            self.call_from_thread(self.exit)
            return
        self.call_from_thread(self._opened)

    def _progress(self, what: str, part: float | None) -> None:
        def tell() -> None:
            if self._closing:
                return
            self.main.doing = (what, part)
            self.main.frame()

        self.call_from_thread(tell)

    def _opened(self) -> None:
        if self._closing:
            return
        self.main.show()
        if self.follow and self.session.is_long:
            self._unfollow("this run is too long to be followed: it is shown as it was when it was opened")
        elif self.follow:
            self.set_timer(self._pause, self._look)

    def _unfollow(self, why: str) -> None:
        self.follow = False
        if why:
            self.main.say(f"{why}; open it again for what has come since")
        self.main.frame()

    def prepare(self, place: Place) -> None:
        """Have the view of a place made in the background, and drawn when it is there."""
        if place.name in self._making:
            return
        self._making.add(place.name)
        self._tell(place, f"preparing {place.title}", None)

        def make() -> None:
            self.session.make(place, lambda *how: self.call_from_thread(self._tell, place, *how))
            self.call_from_thread(self._prepared, place)

        self.run_worker(make, thread=True, group="make")

    def _tell(self, place: Place, what: str, part: float | None) -> None:
        """Say how far the view of a place is, where one waits for it."""
        if not self._closing and self.main.level.place.name == place.name:
            self.main.doing = (what, part)
            self.main.frame()

    def _prepared(self, place: Place) -> None:
        self._making.remove(place.name)
        if not self._closing and self.main.level.place.name == place.name:
            self.main.grown()

    def make_page(self, *, keep: bool) -> None:
        """The page of the current row of a long run, which may have to read much of its log first."""
        row, level = self.main.table.current, self.main.level

        def make() -> None:
            page = self.main.page_of_row()
            self.call_from_thread(show, page)

        def show(page: Page | None) -> None:
            if self._closing or self.main.level is not level:
                return
            if self.main.table.current == row:
                self.main.pane.show_page(page, keep=keep)
                self.main.frame()

        self.run_worker(make, thread=True, group="page", exclusive=True)

    def open_inside(self, level: Level, row: Struct) -> None:
        """Open the list that a row of a long run opens, which may have to read much of its log first."""
        source, inside = self.session.source, level.place.inside
        assert source is not None
        assert inside is not None

        def make() -> None:
            self.call_from_thread(enter, inside(source, row))

        def enter(place: Place | None) -> None:
            if not self._closing and self.main.level is level and self.main.table.current == row:
                self.main.entered(level, place)

        self.run_worker(make, thread=True, group="inside", exclusive=True)

    def _look(self) -> None:
        self.run_worker(self._grow, thread=True, group="follow", exclusive=True)

    def _grow(self) -> None:
        """Read on, in a thread; the more that takes, the longer until the next look."""
        began = time.monotonic()
        grew = self.session.grow()
        self._pause = max(EVERY_S, 4 * (time.monotonic() - began))
        self.call_from_thread(self._grown, grew)

    def _grown(self, grew: bool) -> None:
        if self._closing:
            return
        if grew:
            self.main.grown()
        source = self.session.source
        if source is not None and source.run.summary.complete:
            self._unfollow("")
        elif self.session.is_too_long:
            self._unfollow("this run has become too long to be followed: this is how it was")
        else:
            self.set_timer(self._pause, self._look)

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(unicode=self.unicode))

    def open_finding(self, id: str) -> None:
        """The page of a finding, from wherever one is."""
        finding, source = self.session.finding(id), self.session.source
        if finding is None or source is None:
            return
        self.main.action_go("home")
        level = self.main.level
        level.key, level.number = level.place.key(finding), source.findings.index(finding)
        self.main.show()
        self.main.action_enter()

    def copy(self, text: str) -> None:
        """To the terminal's clipboard, and to others: those may take a moment."""
        self.copy_to_clipboard(text)

        def write() -> None:
            path = copy(text)
            also = f"; it is in {at_home(path)} too" if path is not None else ""
            self.call_from_thread(said, f"copied {len(text.splitlines())} lines of Markdown{also}")

        def said(what: str) -> None:
            if not self._closing:
                self.main.say(what)

        self.run_worker(write, thread=True, group="copy", exclusive=True)

    def write_report(self) -> None:
        """Write the run as one HTML file into the current directory; by a process of its own."""
        folder = self.session.folder
        path = Path(f"{folder.name.removesuffix('.html')}.html")
        if self._writing_since is not None:
            self.main.say(f"{path} is being written")
            return
        if path.exists() and not is_report(path):
            self.main.say(f"{path} is there already and is no report of compdbg")
            return
        self._writing_since = time.monotonic()
        clock = self.set_interval(1.0, self.main.frame)

        def write() -> None:
            said = _written(folder, path)
            self.call_from_thread(wrote, said)

        def wrote(said: str) -> None:
            self._writing_since = None
            clock.stop()
            if not self._closing:
                self.main.say(said)

        self.main.frame()
        self.run_worker(write, thread=True, group="report")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        for action in keys.ACTIONS:
            yield SystemCommand(
                action.text.capitalize(),
                f"key: {keys.shown_key(action.keys)}",
                partial(self._act, action.action),
            )

    async def _act(self, action: str) -> None:
        await self.main.run_action(action)


def _written(folder: Path, path: Path) -> str:
    """What to say when the report is written, or why it is not."""
    try:
        by_itself("compdbg", "report", str(folder.absolute()), f"-o{path}", told=lambda what, part: None)
        return f"wrote {path}, {path.stat().st_size / 1e3:,.0f} kB"
    except Failed as failure:
        return f"{path} was not written: {str(failure).removeprefix('compdbg: error: ')}"
    except OSError as problem:
        return f"{path}: {problem.strerror}"
