"""The application: opens the run in the background, follows it, and holds the one screen."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from compdbg.store.reader import CannotRead
from compdbg.tui import keys
from compdbg.tui.background import Background
from compdbg.tui.glyphs import has_unicode
from compdbg.tui.palette import Findings, Palette
from compdbg.tui.pane import Pane
from compdbg.tui.screen import Main
from compdbg.tui.session import Session
from compdbg.tui.table import Table
from compdbg.tui.themes import THEMES, own_colours

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
        self.background = Background(self)
        self._pause = EVERY_S
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
        source, writing_s = self.session.source, self.background.writing_s
        said = [] if writing_s is None else [f"writing HTML, {writing_s:.0f} s"]
        if source is None:
            said.append("opening")
        elif not source.run.summary.complete:
            said.append("live" if self.follow else "not ended")
        return said

    @property
    def closing(self) -> bool:
        """Whether nothing is to be drawn any longer."""
        return self._closing

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
