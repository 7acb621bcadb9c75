"""The application: holds the run, what reads it in the background, and the one screen."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from compdbg.tui import keys
from compdbg.tui.background import Background
from compdbg.tui.glyphs import has_unicode
from compdbg.tui.palette import Findings, Palette
from compdbg.tui.pane import Pane
from compdbg.tui.reading import Reading
from compdbg.tui.screen import Main
from compdbg.tui.session import Session
from compdbg.tui.table import Table
from compdbg.tui.themes import THEMES, own_colours


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
        self.reading = Reading(self, follow=follow)
        self._main: Main | None = None
        self.background = Background(self)
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
        writing_s = self.background.writing_s
        said = [] if writing_s is None else [f"writing HTML, {writing_s:.0f} s"]
        return [*said, *self.reading.state]

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
        self.reading.open()

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
