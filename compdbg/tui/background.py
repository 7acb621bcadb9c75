"""What would hold up keys is done in threads; what comes of it is drawn where one still waits for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from compdbg.store.embedded import is_report
from compdbg.store.reader import CannotRead
from compdbg.tui.clipboard import at_home, copy
from compdbg.tui.trail import Level
from compdbg.views.explorer.apart import Failed, by_itself
from compdbg.views.explorer.base import Page, Place

if TYPE_CHECKING:
    from compdbg.tui.app import Explorer


class Background:
    """The threads of an explorer."""

    def __init__(self, app: Explorer) -> None:
        self.app = app
        self._making: set[str] = set()
        """Places of which a view is being made."""
        self._since: float | None = None

    def prepare(self, place: Place) -> None:
        """Have the view of a place made in the background, and drawn when it is there."""
        if place.name in self._making:
            return
        self._making.add(place.name)
        self._tell(place, f"preparing {place.title}", None)

        def make() -> None:
            self.app.session.make(place, lambda *how: self.app.call_from_thread(self._tell, place, *how))
            self.app.call_from_thread(self._prepared, place)

        self.app.run_worker(make, thread=True, group="make")

    def _tell(self, place: Place, what: str, part: float | None) -> None:
        """Say how far the view of a place is, where one waits for it."""
        if not self.app.closing and self.app.main.level.place.name == place.name:
            self.app.main.doing = (what, part)
            self.app.main.frame()

    def _prepared(self, place: Place) -> None:
        self._making.remove(place.name)
        if not self.app.closing and self.app.main.level.place.name == place.name:
            self.app.main.grown()

    def make_page(self, *, keep: bool) -> None:
        """The page of the current row of a long run, which may have to read much of its log first."""
        row, level = self.app.main.table.current, self.app.main.level

        def make() -> None:
            self.app.call_from_thread(show, self.app.main.page_of(row))

        def show(page: Page | None) -> None:
            if self._is_at(level, row):
                self.app.main.pane.show_page(page, keep=keep)
                self.app.main.frame()

        self.app.run_worker(make, thread=True, group="page", exclusive=True)

    def open_inside(self, level: Level, row: Struct) -> None:
        """Open the list that a row of a long run opens, which may have to read much of its log first."""
        source, inside = self.app.session.source, level.place.inside
        assert source is not None
        assert inside is not None

        def make() -> None:
            try:
                place = inside(source, row)
            except CannotRead as problem:
                self.app.call_from_thread(self.app.main.say, str(problem))
            else:
                self.app.call_from_thread(enter, place)

        def enter(place: Place | None) -> None:
            if self._is_at(level, row):
                self.app.main.entered(level, place)

        self.app.run_worker(make, thread=True, group="inside", exclusive=True)

    def _is_at(self, level: Level, row: Struct | None) -> bool:
        """Whether one is still where something was asked for."""
        main = self.app.main
        return not self.app.closing and main.level is level and main.table.current == row

    def copy(self, text: str) -> None:
        """To the terminal's clipboard, and to others: those may take a moment."""
        self.app.copy_to_clipboard(text)

        def write() -> None:
            path = copy(text)
            also = f"; it is in {at_home(path)} too" if path is not None else ""
            self.app.call_from_thread(said, f"copied {len(text.splitlines())} lines of Markdown{also}")

        def said(what: str) -> None:
            if not self.app.closing:
                self.app.main.say(what)

        self.app.run_worker(write, thread=True, group="copy", exclusive=True)

    @property
    def writing_s(self) -> float | None:
        """For how long the report has been written; None when it is not."""
        return None if self._since is None else time.monotonic() - self._since

    def write_report(self) -> None:
        """Write the run as one HTML file into the current directory; by a process of its own."""
        folder = self.app.session.folder
        path = Path(f"{folder.name.removesuffix('.html')}.html")
        if self._since is not None:
            self.app.main.say(f"{path} is being written")
            return
        if path.exists() and not is_report(path):
            self.app.main.say(f"{path} is there already and is no report of compdbg")
            return
        self._since = time.monotonic()
        clock = self.app.set_interval(1.0, self.app.main.frame)

        def write() -> None:
            said = _written(folder, path)
            self.app.call_from_thread(wrote, said)

        def wrote(said: str) -> None:
            self._since = None
            clock.stop()
            if not self.app.closing:
                self.app.main.say(said)

        self.app.main.frame()
        self.app.run_worker(write, thread=True, group="report")


def _written(folder: Path, path: Path) -> str:
    """What to say when the report is written, or why it is not."""
    try:
        by_itself("compdbg", "report", str(folder.absolute()), f"-o{path}", told=lambda what, part: None)
        return f"wrote {path}, {path.stat().st_size / 1e3:,.0f} kB"
    except Failed as failure:
        return f"{path} was not written: {str(failure).removeprefix('compdbg: error: ')}"
    except OSError as problem:
        return f"{path}: {problem.strerror}"
