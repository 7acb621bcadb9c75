"""A log that is cut, replaced or removed while the explorer shows it: one line, and what was read stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from compdbg.events import ProcessEnd
from compdbg.store import index as indexing
from compdbg.store.index import build_index
from compdbg.store.indexed import IndexedLog
from compdbg.store.reader import Unread
from compdbg.store.watch import Watch
from compdbg.tui import session
from compdbg.views.explorer.all import PLACES
from tests.tui.conftest import Driver, Open
from tests.tui.damage import cut, emptied, log_of, log_removed, removed, replaced, without_rights
from tests.tui.runs import Builder, everything
from tests.tui.test_follow import until

LETTERS = "".join(place.letter for place in PLACES.values())


CHANGES = [(emptied, "shorter"), (cut, "shorter"), (removed, "gone"), (log_removed, "gone"),
           (replaced, "replaced")]  # fmt: skip
change_and_word = pytest.mark.parametrize(
    ("change", "word"), CHANGES, ids=lambda v: getattr(v, "__name__", v)
)
often = pytest.mark.parametrize(
    ("change", "word"),
    [
        pytest.param(*pair, marks=() if pair[0] in (cut, removed) else pytest.mark.slow, id=pair[0].__name__)
        for pair in CHANGES
    ],
)
"""For those that go through every place: two of the changes always, all of them where there is time."""
Change = Callable[[Path], None]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return everything(tmp_path / "run")


async def check(tui: Driver) -> None:
    tui.app.reading.check()
    await tui.settle()


async def walk(tui: Driver) -> None:
    """Go through every place, to what its first row leads to, and filter events."""
    for letter in LETTERS:
        await tui.press(letter, "enter", "enter")
    await tui.press("e", "slash")
    await tui.type("kind:graph aten")
    assert tui.app._exception is None


@often
async def test_a_run_that_was_read_stays(opened: Open, run: Path, change: Change, word: str) -> None:
    async with opened(run, (120, 36)) as tui:
        before = tui.lines[2:-1]
        change(run)
        await check(tui)
        assert f"log {word}" in tui.lines[0]
        assert "; R reads again; what was read is shown" in tui.lines[-1]
        assert tui.lines[2:-1] == before
        await walk(tui)


@often
async def test_a_long_run_that_is_read_as_it_is_seen(
    opened: Open, run: Path, change: Change, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "LONG", 0)
    async with opened(run, (120, 36)) as tui:
        assert tui.app.session.is_long
        change(run)
        await walk(tui)
        await check(tui)
        assert f"log {word}" in tui.lines[0]


@change_and_word
async def test_on_each_screen(
    opened: Open, run: Path, change: Change, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of a long run that needs events which are gone says so; a list names them by its index."""
    monkeypatch.setattr(indexing, "LONG", 0)
    async with opened(run, (120, 36)) as tui:
        await tui.press("e", "end")
        change(run)
        await tui.press("k", "end")
        held = word == "gone"  # the file is open, and read until it is closed
        assert ("is no longer in host-1000-abcdef.jsonl" in tui.page) == (not held)
        table = tui.app.main.table
        table.refresh()
        assert len(table.items) > 50
        assert ("(no longer in the log)" in table.items[len(table.items) - 1].text) == (not held)


@often
async def test_a_run_that_is_followed(opened: Open, tmp_path: Path, change: Change, word: str) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    async with opened(run.folder, (120, 36), follow=True) as tui:
        assert "live" in tui.lines[0]
        count = len(tui.app.session.source.run.log.records)
        change(run.folder)
        await until(tui, lambda: f"log {word}" in tui.lines[0])
        assert "live" not in tui.lines[0]
        assert len(tui.app.session.source.run.log.records) == count
        await walk(tui)


async def test_one_process_of_many(opened: Open, run: Path) -> None:
    other = log_of(run).read_text().replace("1000-abcdef", "1001-abcdef")
    (run / "host-1001-abcdef.jsonl").write_text(other)
    async with opened(run, (120, 36)) as tui:
        (run / "host-1001-abcdef.jsonl").unlink()
        await check(tui)
        assert "host-1001-abcdef.jsonl is gone; R reads again" in tui.lines[-1]


async def test_what_can_no_longer_be_read(opened: Open, run: Path) -> None:
    async with opened(run, (120, 36)) as tui:
        with without_rights(log_of(run)):
            await check(tui)
        assert "log unreadable" in tui.lines[0]
        assert "can't be read any longer (Permission denied)" in tui.lines[-1]
        await check(tui)
        assert "log" not in tui.lines[0]
        assert "the log is again as it was read" in tui.lines[-1]


async def test_a_log_that_only_grows_has_not_changed(opened: Open, run: Path) -> None:
    async with opened(run, (120, 36)) as tui:
        with log_of(run).open("a") as log:
            log.write("{}\n")
        await check(tui)
        assert "log" not in tui.lines[0]
        assert "R " not in tui.lines[-1]


@pytest.mark.parametrize("long", [10**9, 0])
async def test_it_is_read_again(opened: Open, run: Path, long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "LONG", long)
    async with opened(run, (120, 36)) as tui:
        await tui.press("e")
        whole = len(tui.app.main.table.items)
        lines = log_of(run).read_bytes().splitlines(keepends=True)
        log_of(run).write_bytes(b"".join(lines[:7]))
        await check(tui)
        await tui.press("R")
        assert "read again: 7 events" in tui.lines[-1]
        assert "log" not in tui.lines[0]
        assert len(tui.app.main.table.items) == 7 < whole
        await walk(tui)


async def test_what_can_not_be_read_again_stays(opened: Open, run: Path) -> None:
    async with opened(run, (120, 36)) as tui:
        kept = run.rename(run.with_name("elsewhere"))
        await check(tui)
        await tui.press("R")
        assert f"{run} can't be read: No such file or directory; what was read before is shown" == (
            tui.app.main.note
        )
        assert "F1" in tui.text
        kept.rename(run)
        await tui.press("R")
        assert "read again: " in tui.lines[-1]
        assert "log" not in tui.lines[0]


async def test_from_a_list_of_a_row_one_comes_back_to_its_place(opened: Open, run: Path) -> None:
    everything(run.with_name("other"))
    async with opened(run, (120, 36)) as tui:
        await tui.press("d", "enter")
        assert "other" in tui.lines[0]
        await tui.press("R")
        assert tui.app.main.level.place.name == "diff"
        assert len(tui.app.main.trail) == 1


async def test_the_other_side_of_a_difference_goes(opened: Open, run: Path) -> None:
    other = everything(run.with_name("other"))
    async with opened(run, (120, 36)) as tui:
        await tui.press("d")
        shutil.rmtree(other)
        await tui.press("enter")
        assert f"no run at {other}" in tui.text


async def test_a_report_of_a_run_that_is_gone(
    opened: Open, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(run, (160, 36)) as tui:
        shutil.rmtree(run)
        await tui.press("x")
        assert f"run.html was not written: no run at {run}" in tui.lines[-1]
    assert not list(tmp_path.glob("*.html*"))


@often
async def test_while_an_index_is_made(
    opened: Open, run: Path, change: Change, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is read whole; where nothing is, the command ends with a line of why."""
    monkeypatch.setattr(indexing, "LONG", 0)

    def work_out(folder: Path, told: object) -> None:
        change(folder)

    monkeypatch.setattr(session, "work_out", work_out)
    async with opened(run, (120, 36)) as tui:
        fault = tui.app.reading.fault
        if change is removed:
            assert str(fault) == f"{run} can't be read: No such file or directory"
            return
        assert fault is None
        assert "log" not in tui.lines[0]
        await walk(tui)


def test_events_of_an_indexed_log_that_is_cut(run: Path) -> None:
    log = IndexedLog(run, build_index(run, lambda part: None))
    last = log.records[-1]
    cut(run)
    assert log.records[0].event.kind == "process-start"
    with pytest.raises(Unread, match=rf"event {last.id} is no longer in host-1000-abcdef.jsonl"):
        _ = log.records[-1]
    with pytest.raises(Unread):
        _ = log.by_id[last.id]
    with pytest.raises(Unread):
        list(log.of(ProcessEnd))


def test_a_file_that_another_explorer_indexed_and_nobody_can_open(run: Path) -> None:
    index = build_index(run, lambda part: None)
    log_of(run).unlink()
    with pytest.raises(Unread):
        _ = IndexedLog(run, index).records[0]


def test_a_file_of_an_indexed_log_is_closed_with_it(run: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    index, before = build_index(run, lambda part: None), open_files()
    log = IndexedLog(run, index)
    assert open_files() == before + 1
    del log
    assert open_files() == before


def test_a_watch_tells_growth_from_the_rest(run: Path) -> None:
    watch, path = Watch(run), log_of(run)
    watch.look()
    content = path.read_bytes()
    path.write_bytes(content + b"more")
    assert watch.change() is None
    path.write_bytes(content[:-1])
    assert watch.change() == ("shorter", f"{path.name} is shorter than before")
    path.write_bytes(content)
    assert watch.change() is None
    path.write_bytes(b"x" + content)
    assert watch.change() == ("replaced", f"{path.name} is another run's log now")
