"""Runs that the tests of the explorer share, and a way to drive it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from compdbg.tui.app import Explorer
from compdbg.tui.draw import bits_of
from tests.tui.runs import everything, know_source


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine is run in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class Driver:
    """The explorer with a run open: keys in, text out."""

    def __init__(self, app: Explorer, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def type(self, text: str) -> None:
        """Write into the line that is open, and finish it."""
        await self.pilot.press(*text, "enter")
        await self.settle()

    async def settle(self) -> None:
        with suppress(WorkerCancelled):  # a run that can't be read ends the explorer, and its workers
            await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, a line each."""
        width, height = self.app.size
        rows = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in row).rstrip()[:width] for row in rows[:height]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def page(self) -> str:
        """The whole page, also what is below the screen's edge."""
        lines = self.app.main.pane.lines
        return "\n".join("".join(bit.text for bit in bits_of(line)) for line in lines)


Open = Callable[..., AbstractAsyncContextManager[Driver]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Open:
    """Opens a run in the explorer, at a size, without the user's own settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for clipboard in ("TMUX", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(clipboard, raising=False)

    @asynccontextmanager
    async def start(folder: Path, size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Driver]:
        app = Explorer(folder, unicode=options.pop("unicode", True), **options)
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            await driver.settle()
            yield driver

    return start


@pytest.fixture(scope="session")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    know_source()
    return everything(tmp_path_factory.mktemp("runs") / "serve-20231114")
