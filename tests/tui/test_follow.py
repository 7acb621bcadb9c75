"""A run that grows while it is looked at: what comes is shown, and what one looks at stays."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compdbg.events import ProcessEnd, Span
from compdbg.store.follow import Tail
from compdbg.store.reader import read_log
from tests.tui.conftest import Driver, Open
from tests.tui.runs import Builder, compiled_with_a_branch, everything, recompiled, split_and_captured


async def until(tui: Driver, true: Callable[[], bool]) -> None:
    """Wait until it holds; a run is looked at every half second."""
    async with asyncio.timeout(30):
        while not true():
            await tui.pilot.pause(0.05)


async def test_findings_come_as_the_program_runs(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    async with opened(run.folder, follow=True) as tui:
        assert "live" in tui.lines[0]
        assert "No findings" in tui.text
        compiled_with_a_branch(run)
        await until(tui, lambda: "F1" in tui.text)
        assert "guard-dropped-violated" in str(tui.app.session.source)
        run.end()
        await until(tui, lambda: "live" not in tui.lines[0])
        assert "✓ exit status 0" in tui.text


async def test_the_view_does_not_jump(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    recompiled(run)
    async with opened(run.folder, follow=True) as tui:
        await tui.press("e", "end", "k", "k")
        table = tui.app.main.table
        current, top, count = table.current, table.scroll_offset.y, len(table.items)
        await tui.press("h", "j")
        looked_at = tui.app.main.level.place.key(tui.app.main.table.current)
        await tui.press("e")
        split_and_captured(run, fails_at=32)
        await until(tui, lambda: len(table.items) > count)
        assert (table.current, table.scroll_offset.y) == (current, top)
        await tui.press("h")
        assert tui.app.main.level.place.key(tui.app.main.table.current) == looked_at


async def test_a_page_that_is_read_stays_where_it_was_scrolled(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    compiled_with_a_branch(run)
    async with opened(run.folder, follow=True) as tui:
        await tui.press("enter", "j", "j", "j")
        assert tui.app.main.pane.scroll_offset.y == 3
        title, before = tui.app.main.pane.page.title, len(tui.app.session.source.run.log.records)
        recompiled(run)
        await until(tui, lambda: len(tui.app.session.source.run.log.records) > before)
        await tui.pilot.pause()
        assert tui.app.main.pane.scroll_offset.y == 3
        assert tui.app.main.pane.page.title == title


def test_only_what_is_new_is_read_and_lines_cut_in_two_come_whole(tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    tail = Tail(run.folder)
    assert len(tail.read().records) == 4
    assert tail.read_more() is None
    path = next(run.folder.glob("*.jsonl"))
    line = json.dumps({"run": "r", "process": "p", "seq": 1, "time": 1e12, "kind": "process-end"}) + "\n"
    with path.open("a") as log:
        log.write(line[:30])
    assert tail.read_more() is None
    with path.open("a") as log:
        log.write(line[30:])
    grown = tail.read_more()
    assert grown is not None
    assert isinstance(grown.records[-1].event, ProcessEnd)
    assert len(grown.records) == 5


def test_a_tail_reads_what_a_reader_reads(tmp_path: Path) -> None:
    folder = everything(tmp_path / "run")
    path = next(folder.glob("*.jsonl"))
    with path.open("a") as log:
        log.write("no event\n{}\n" + '{"cut')
    tail, log_read = Tail(folder).read(), read_log(folder)
    assert tail.records == log_read.records
    assert (tail.damaged, tail.partial, tail.manifest) == (
        log_read.damaged,
        log_read.partial,
        log_read.manifest,
    )


PROGRAM = """
import sys, time
import compdbg
from compdbg import probe
from compdbg.events import Span

with compdbg.record(sys.argv[1]):
    for n in range(2000):
        probe.emit(Span(name=f"step {n}", duration_s=0.0))
        if n % 20 == 0:
            time.sleep(float(sys.argv[2]))
"""


@pytest.mark.slow
async def test_a_program_that_is_followed_is_not_paused(opened: Open, tmp_path: Path) -> None:
    """A real recorder writes while the explorer reads: every event arrives, and the program ends."""
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "run"), "0.005"])
    while not (tmp_path / "run" / "run.json").exists():
        await asyncio.sleep(0.05)
    async with opened(tmp_path / "run", follow=True) as tui:
        await tui.press("e")
        await until(tui, lambda: len(tui.app.session.source.run.log.of(Span)) >= 2000)
        assert program.wait(30) == 0
        await until(tui, lambda: "live" not in tui.lines[0])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_in_a_real_terminal_over_a_run_that_is_being_recorded(tmp_path: Path) -> None:
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "run"), "0.05"])
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]

    def shown(text: str) -> str:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            done = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False)
            if text in done.stdout:
                return done.stdout
            time.sleep(0.1)
        raise AssertionError(f"{text!r} did not come:\n{done.stdout}")

    command = f"{sys.executable} -m compdbg tui --follow {tmp_path / 'run'}"
    while not (tmp_path / "run" / "run.json").exists():
        time.sleep(0.05)
    try:
        subprocess.run(
            [*tmux, "new-session", "-d", "-x", "80", "-y", "24", "-e", "LC_ALL=C.UTF-8", command], check=True
        )
        assert "compdbg › Home" in shown("  live\n").splitlines()[0]
        subprocess.run([*tmux, "send-keys", "e", "/", '"step 1999"', "Enter"], check=True)
        assert program.wait(60) == 0
        assert "step" in shown("1 event of")
        subprocess.run([*tmux, "send-keys", "h"], check=True)
        assert "live" not in shown("ended: after").splitlines()[0]
        subprocess.run([*tmux, "send-keys", "q"], check=True)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
