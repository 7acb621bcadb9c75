"""Runs in every state, strings of every kind, terminals of every size."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from compdbg.events import CompileRequest, FrameStart, SpanBegin, Where
from compdbg.tui.glyphs import has_unicode
from compdbg.views.explorer.all import PLACES
from tests.tui.conftest import Driver, Open
from tests.tui.runs import Builder, compiled_with_a_branch, everything, started_slowly

LETTERS = "".join(place.letter for place in PLACES.values())


async def walked(tui: Driver) -> None:
    """Go through every place, a row down, into a page and back."""
    for letter in LETTERS:
        await tui.press(letter, "j", "enter", "right_square_bracket", "escape")
        assert tui.app._exception is None


async def test_an_empty_run(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    async with opened(run.folder) as tui:
        assert "No fault was found in this run." in tui.text
        assert "No findings: nothing wrong was seen in this run." in tui.text
        assert "not ended" in tui.lines[0]
        await walked(tui)
        await tui.press("e")
        assert "The log holds no event." in tui.text
        await tui.press("f")
        assert "nothing was compiled by Inductor" in tui.text


async def test_a_crashed_run(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    run.add(SpanBegin(name="compile", compile_id="0/0"))
    with next(run.folder.glob("*.jsonl")).open("a") as log:
        log.write('{"run": "r", "process": "1000-abcdef", "seq": 9, "ti')
    run.end(signal=11)
    async with opened(run.folder) as tui:
        assert "✗ killed by signal 11 (SIGSEGV) after 9.0 s" in tui.text
        await tui.press("t")
        assert "compile (still open)" in tui.text
        await walked(tui)


async def test_two_ranks_one_at_a_time(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    for rank in (0, 1):
        run.rank = rank
        run.start()
        compiled_with_a_branch(run)
    run.end()
    async with opened(run.folder) as tui:
        assert "all ranks" in tui.lines[0]
        assert "ranks 0, 1" in tui.text
        await tui.press("e")
        everything_said = len(tui.app.main.table.items)
        await tui.press("r")
        assert "rank 0" in tui.lines[0]
        of_one = len(tui.app.main.table.items)
        assert 0 < of_one < everything_said
        assert {row.rank for row in tui.app.main.table.items} == {0}
        await tui.press("g")
        assert len(tui.app.main.table.items) == 1
        await tui.press("r", "r")
        assert "all ranks" in tui.lines[0]
        assert len(tui.app.main.table.items) == 2
        await tui.press("d")
        assert "rank 0 and rank 1" in tui.text
        await walked(tui)


async def test_a_run_of_an_older_schema_with_kinds_that_are_not_known(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run", schema="1.0")
    run.start()
    run.line({"kind": "from-the-future", "what": "[bold]x[/]"})
    run.end()
    async with opened(run.folder) as tui:
        await tui.press("e", "slash")
        await tui.type("future")
        assert "1 event of 7: future" in tui.text
        assert "(not known to this version)" in tui.text
        assert "[bold]x[/]" in tui.page
        await walked(tui)


async def test_a_newer_major_schema_is_refused(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run", schema="2.0")
    async with opened(run.folder) as tui:
        assert tui.app.reading.fault is not None
        assert "newer than this compdbg can read" in str(tui.app.reading.fault)


HOSTILE = "[bold]\x1b[31m[/red] \u202e</script>&\x00\u4f60\u597d`| {x} $(rm) \n\t%s" + "w" * 300


def spoiled(value: object) -> object:
    """The same event with a hostile text in each of its strings that is not a name of the format's own."""
    if isinstance(value, dict):
        return {k: v if k in KEEP else spoiled(v) for k, v in value.items()}
    if isinstance(value, list):
        return [spoiled(v) for v in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


KEEP = {"kind", "process", "run", "stage", "reason", "outcome", "text", "before", "after", "effect", "result"}


async def test_hostile_strings_in_every_field(opened: Open, tmp_path: Path) -> None:
    folder = everything(tmp_path / "run[bold]\x1b[2J")
    count = 0
    for path in folder.glob("*.jsonl"):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        count += len(events)
        path.write_text("".join(json.dumps(spoiled(event)) + "\n" for event in events))
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**manifest, "argv": [HOSTILE]}))
    for text in (folder / "payloads").glob("*.txt"):
        text.write_bytes(HOSTILE.encode() + b"\x80" + text.read_bytes())
    async with opened(folder) as tui:
        assert tui.app.session.source is not None
        log = tui.app.session.source.run.log
        assert (len(log.records), log.damaged) == (count, 0)
        assert "[bold]\\x1b[31m[/red] \\x202e</script>" in tui.text
        for letter in LETTERS:
            await tui.press(letter)
            assert_plain(tui)
            await tui.press("enter")
            assert_plain(tui)
            await tui.press("y")
            assert tui.app.main.pane.page is None or "of Markdown" in tui.lines[-1]
            assert tui.app.clipboard.replace("\n", "").isprintable()
            await tui.press("escape")
        await tui.press("h", "ctrl+p", *"f1 error")
        assert_plain(tui)
        assert any(line.startswith("  F1 error: ") and "[bold]" in line for line in tui.lines)


def assert_plain(tui: Driver) -> None:
    """Nothing on the screen, or below its edge, that a terminal would obey."""
    assert tui.app._exception is None
    assert all(c.isprintable() for line in (*tui.lines, *tui.page.splitlines()) for c in line)


@pytest.mark.parametrize("size", [(200, 60), (20, 5)])
async def test_any_size_and_a_change_of_it(opened: Open, full_run: Path, size: tuple[int, int]) -> None:
    async with opened(full_run, size) as tui:
        await walked(tui)
        await tui.pilot.resize_terminal(131, 31)
        await tui.settle()
        await walked(tui)
        assert all(len(line) <= 131 for line in tui.lines)


async def test_a_terminal_without_unicode(opened: Open, full_run: Path) -> None:
    async with opened(full_run, (120, 30), unicode=False) as tui:
        for letter in LETTERS:
            await tui.press(letter)
            assert tui.text.isascii()
            await tui.press("enter")
            assert tui.text.isascii()
            await tui.press("escape")
        await tui.press("g")
        assert "x differs" in tui.text
        await tui.press("ctrl+p", *"norm")
        assert "NormRoundFusionPass" in tui.text
        assert tui.text.isascii()


@pytest.mark.parametrize(
    ("environment", "known"),
    [
        ({"TERM": "xterm-256color", "LANG": "C.UTF-8"}, True),
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "vt100", "LANG": "C.UTF-8"}, False),
        ({"TERM": "linux", "LANG": "C.UTF-8"}, False),
        ({"TERM": "xterm", "LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),  # as Python leaves LANG=C
        ({"TERM": "xterm", "LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, False),
        ({"TERM": "xterm", "LC_ALL": "C.UTF-8", "LANG": "C"}, True),
        ({"TERM": "xterm", "LC_CTYPE": "en_US.UTF-8", "LANG": "C"}, True),
    ],
)
def test_which_terminals_have_unicode(
    environment: dict[str, str], known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert has_unicode() == known


async def test_words_say_what_colours_say(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        for letter, state in (("h", "✗ error"), ("f", "✗ missed"), ("g", "✗ differs"), ("s", "✗ no capture")):
            await tui.press(letter)
            assert state in tui.text


async def test_a_long_list_keeps_its_place_when_one_comes_back(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    where = Where("/a.py", 1, "f")
    for n in range(300):
        run.add(CompileRequest(target=f"f{n}", where=where, request=f"1.{n}"))
        run.add(FrameStart(frame=f"/a.py:{n}:f", compile_id=f"{n}/0", where=where))
    started_slowly(run)
    run.end()
    async with opened(run.folder) as tui:
        await tui.press("e", "end")
        last, top = tui.app.main.table.cursor, tui.app.main.table.scroll_offset.y
        await tui.press("h", "e")
        assert (tui.app.main.table.cursor, tui.app.main.table.scroll_offset.y) == (last, top)
        await tui.press("enter", "left_square_bracket", "escape")
        assert tui.app.main.table.cursor == last - 1
