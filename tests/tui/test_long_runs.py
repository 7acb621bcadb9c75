"""Runs too long to be read whole: an index that says the same, kept and used again."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from compdbg.events import Graph, MatchAttempt, Span
from compdbg.findings.collect import find_all
from compdbg.model.run import Run
from compdbg.store import index as indexing
from compdbg.store.embedded import read_report
from compdbg.store.index import build_index, home, read_index
from compdbg.store.indexed import IndexedLog
from compdbg.store.ranks import only_rank
from compdbg.store.reader import read_log
from compdbg.tui import session
from compdbg.tui.app import Explorer
from compdbg.views.base import Source
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.apart import Failed, by_itself, stop
from compdbg.views.explorer.compared import compared
from compdbg.views.explorer.kept import keep_view, kept_view
from compdbg.views.explorer.time import TimeRow
from tests.tui.conftest import Driver, Open
from tests.tui.runs import Builder, everything

NEVER = "tests.tui.half_done"


@pytest.fixture
def two_ranks(tmp_path: Path) -> Path:
    folder = everything(tmp_path / "run")
    (one,) = folder.glob("*.jsonl")
    other = one.read_text().replace("1000-abcdef", "1001-abcdef").replace('"rank": null', '"rank": 1')
    (folder / "host-1001.jsonl").write_text(other + "no event\n" + '{"cut')
    return folder


def test_an_indexed_log_says_what_a_log_says(two_ranks: Path) -> None:
    whole, indexed = read_log(two_ranks), IndexedLog(two_ranks, build_index(two_ranks, lambda part: None))
    assert list(indexed.records) == list(whole.records)
    assert (indexed.damaged, indexed.partial, indexed.unknown) == (1, 1, {})
    for kind in (Graph, Span, MatchAttempt):
        assert list(indexed.of(kind)) == list(whole.of(kind))
    assert list(indexed.among((Graph, Span))) == list(whole.among((Graph, Span)))
    assert indexed.ends == whole.ends
    for record in whole.records:
        assert indexed.by_id[record.id] == record
        assert indexed.position(record.id) == whole.position(record.id)
    assert indexed.by_id.get("1000-abcdef:9999") is None
    assert indexed.by_id.get("nobody:1") is None
    for query in (
        (("guard",), (), ()),
        ((), (1,), ()),
        (("span",), (1,), ("kernels",)),
        ((), (), ("RMS_NORM",)),
    ):
        assert list(indexed.select(*query)) == list(whole.select(*query))


def test_findings_are_the_same_by_an_index(two_ranks: Path) -> None:
    by_index = find_all(Run(IndexedLog(two_ranks, build_index(two_ranks, lambda part: None))))
    assert by_index == find_all(Run(read_log(two_ranks)))


def test_an_index_is_kept_until_the_run_grows(two_ranks: Path) -> None:
    parts: list[float] = []
    built = build_index(two_ranks, parts.append)
    kept = read_index(two_ranks)
    assert kept is not None
    assert kept.columns == built.columns
    with (two_ranks / "host-1001.jsonl").open("a") as log:
        log.write("\n")
    assert read_index(two_ranks) is None


def test_what_was_not_opened_for_longest_makes_room(
    two_ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    monkeypatch.setattr(indexing, "RUNS", 2)
    runs = [two_ranks, *(shutil.copytree(two_ranks, tmp_path / name) for name in ("second", "third"))]
    for age, run in ((100, runs[0]), (50, runs[1])):
        build_index(run, lambda part: None)
        os.utime(home(run), (time.time() - age,) * 2)
    assert read_index(runs[0]) is not None
    build_index(runs[2], lambda part: None)
    assert [home(run).is_dir() for run in runs] == [True, False, True]


def test_a_spoiled_index_is_none(two_ranks: Path) -> None:
    build_index(two_ranks, lambda part: None)
    (home(two_ranks) / "columns").write_bytes(b"short")
    assert read_index(two_ranks) is None
    (home(two_ranks) / "contents.json").write_text("{")
    assert read_index(two_ranks) is None


def test_columns_of_a_longer_index_are_none(two_ranks: Path) -> None:
    build_index(two_ranks, lambda part: None)
    with (home(two_ranks) / "columns").open("ab") as columns:
        columns.write(b"more")
    assert read_index(two_ranks) is None


def test_views_that_are_written_again_stay_as_they_were_for_who_reads_them(two_ranks: Path) -> None:
    source = Source(
        run := Run(IndexedLog(two_ranks, build_index(two_ranks, lambda part: None))), find_all(run)
    )
    place = PLACES["guards"]
    view = place.view(source)
    keep_view(place, view, two_ranks, [])
    seen = kept_view(place, two_ranks)
    assert seen is not None
    before = list(seen.items)
    keep_view(place, msgspec.structs.replace(view, items=[], shown=None), two_ranks, [])
    assert list(seen.items) == before != []
    assert sorted(path.suffix for path in home(two_ranks).glob("guards*")) == [".json", ".places", ".rows"]


def test_a_spoiled_view_is_none(two_ranks: Path) -> None:
    source = Source(
        run := Run(IndexedLog(two_ranks, build_index(two_ranks, lambda part: None))), find_all(run)
    )
    place = PLACES["guards"]
    keep_view(place, place.view(source), two_ranks, [])
    assert kept_view(place, two_ranks) is not None
    (home(two_ranks) / "guards.rows").write_bytes(b"short")
    assert kept_view(place, two_ranks) is None


async def test_a_long_run_looks_as_a_short_one(
    opened: Open, two_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screens: list[list[str]] = []
    for long in (10**9, 0):
        monkeypatch.setattr(indexing, "LONG", long)
        async with opened(two_ranks, (120, 36)) as tui:
            assert tui.app.session.is_long == (long == 0)
            seen = [tui.text]
            for place in PLACES.values():
                await tui.press(place.letter)
                await tui.settle()
                seen.append(tui.text)
                await tui.press("enter")
                await tui.settle()
                seen.append(tui.text)
                await tui.press("escape", "escape")
            await tui.press("f", "u", "r")
            seen.append(tui.text)
            await tui.press("r", "r", "e", "slash")
            await tui.type("kind:guard rank:1 false")
            seen.append(tui.text)
            assert tui.app.session.source is not None
            for finding in tui.app.session.source.findings:  # each at what proves it
                tui.app.open_finding(finding.id)
                await tui.settle()
                await tui.press("enter")
                seen.append(tui.text)
        screens.append(seen)
    for short, indexed in zip(*screens, strict=True):
        assert short == indexed


async def test_the_second_time_nothing_is_worked_out_again(
    opened: Open, two_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "LONG", 0)
    async with opened(two_ranks) as tui:
        assert "F1" in tui.text

    def must_not(*args: object) -> None:
        raise AssertionError("worked out again")

    monkeypatch.setattr(session, "work_out", must_not)
    async with opened(two_ranks) as tui:
        assert "F1" in tui.text


async def test_what_is_known_is_shown_while_a_run_is_indexed_and_one_can_leave(
    two_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "LONG", 0)
    monkeypatch.setattr(session, "by_itself", lambda module, *given, told: by_itself(NEVER, told=told))
    app = Explorer(two_ranks, unicode=True)
    async with app.run_test(size=(120, 36)) as pilot:
        tui = Driver(app, pilot)
        async with asyncio.timeout(30):
            while "half of it" not in tui.text:
                await pilot.pause(0.02)
        assert f"half of it …  {'█' * 15}{'░' * 15}  50%" in tui.lines[2]
        assert "program: serve.py --steps 100" in tui.text
        assert "✓ exit status 0 after 9.0 s" in tui.text
        assert "torch 2.13.0, Python 3.11.7" in tui.text
        assert tui.lines[-1].split() == ["?", "keys", "^p", "palette", "q", "quit"]
        await pilot.press("question_mark")
        assert "copy the page as Markdown" in tui.text
        await pilot.press("escape", "f", "enter", "slash", "escape", "r", "y", "o", "q")
    assert app.session.source is None
    assert app._exception is None


def test_work_that_nobody_waits_for_is_given_up() -> None:
    heard: list[tuple[str, float | None]] = []

    def told(what: str, part: float | None) -> None:
        heard.append((what, part))
        stop()

    with pytest.raises(Failed, match="ended by signal 15"):
        by_itself(NEVER, told=told)
    assert heard == [("half of it", 0.5)]


def test_work_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="nowhere"):
        by_itself(
            "compdbg.views.explorer.compared", "nowhere/a", "nowhere/b", "a", "b", told=lambda *how: None
        )


async def test_where_nothing_can_be_kept_the_run_is_read_whole(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    run.end()
    monkeypatch.setattr(indexing, "LONG", 0)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    async with opened(run.folder) as tui:
        assert not tui.app.session.is_long
        assert "No findings" in tui.text


async def test_pages_of_phases_need_no_other_phase(
    opened: Open, two_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "LONG", 0)
    async with opened(two_ranks, (120, 40)) as tui:
        await tui.press("t")
        table = tui.app.main.table
        table.move_to(next(n for n, row in enumerate(table.items) if isinstance(row, TimeRow) and row.inside))
        await tui.press("enter")
        assert " inside" in tui.page
        assert tui.app.session.source is not None
        assert "times" not in vars(tui.app.session.source.run)


def test_what_events_have_in_common_is_kept_once(two_ranks: Path) -> None:
    run = Run(IndexedLog(two_ranks, build_index(two_ranks, lambda part: None)))
    for texts in ([p.name for p in run.passes], [p.process for p in run.times.phases]):
        assert len({id(text) for text in texts}) == len(set(texts)) < len(texts)


async def test_a_long_run_is_narrowed_to_a_rank(
    opened: Open, two_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "LONG", 0)
    async with opened(two_ranks, (120, 36)) as tui:
        await tui.press("e")
        everything_there = len(tui.app.main.table.items)
        await tui.press("r")
        assert "rank 1" in tui.lines[0]
        shown = tui.app.main.table.items
        assert 0 < len(shown) < everything_there
        assert {getattr(row, "rank", None) for row in shown} <= {None, 1}


async def test_a_report_of_a_long_run_is_written_by_a_process_of_its_own(
    opened: Open, two_ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "LONG", 0)
    monkeypatch.chdir(tmp_path)
    async with opened(two_ranks, (160, 36)) as tui:
        await tui.press("x")
        assert "wrote run.html" in tui.text
        (worst, *_) = find_all(Run(read_report(tmp_path / "run.html")))
        assert tui.app.session.source is not None
        assert worst.fingerprint == tui.app.session.source.findings[0].fingerprint
        (tmp_path / "run.html").unlink()
        (tmp_path / "run.html.partial").mkdir()
        await tui.press("x")
        assert "run.html was not written: " in tui.text


async def test_ranks_of_a_long_run_are_compared_as_those_of_a_short_one(
    opened: Open, two_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (two_ranks / "host-1000.jsonl").write_text(
        (two_ranks / "host-1001.jsonl")
        .read_text()
        .replace("1001-abcdef", "1000-abcdef")
        .replace('"rank": 1', '"rank": 0')
        .replace("call_module", "call_other")
    )
    places = []
    for long in (10**9, 0):
        monkeypatch.setattr("compdbg.views.explorer.compared.has_long", lambda *sides, long=long: not long)
        monkeypatch.setattr("compdbg.views.explorer.diff.has_long", lambda *sides, long=long: not long)
        async with opened(two_ranks, (120, 36)) as tui:
            await tui.press("d", "enter")
            places.append(tui.text)
    assert "rank 0 and rank 1" in places[0]
    assert places[0] == places[1]


async def test_a_long_run_is_not_followed_and_says_so(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    monkeypatch.setattr(indexing, "LONG", 0)
    async with opened(run.folder, (160, 36), follow=True) as tui:
        assert "too long to be followed" in tui.text
        assert "not ended" in tui.lines[0]


async def test_a_run_that_becomes_too_long_is_no_longer_followed(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    monkeypatch.setattr(session, "FOLLOWED", 0)
    async with opened(run.folder, (160, 36), follow=True) as tui:
        async with asyncio.timeout(30):
            while tui.app.reading.follow:
                await tui.pilot.pause(0.05)
        assert "too long to be followed" in tui.text


def test_the_index_of_a_run_that_has_only_grown(two_ranks: Path) -> None:
    build_index(two_ranks, lambda part: None)
    with (two_ranks / "host-1001.jsonl").open("a") as log:
        log.write("\n")
    assert read_index(two_ranks) is None
    assert read_index(two_ranks, grown=True) is not None
    (two_ranks / "host-1001.jsonl").write_text("")
    assert read_index(two_ranks, grown=True) is None


def test_one_rank_of_an_indexed_log(two_ranks: Path) -> None:
    whole, indexed = read_log(two_ranks), IndexedLog(two_ranks, build_index(two_ranks, lambda part: None))
    assert list(only_rank(indexed, 1).records) == list(only_rank(whole, 1).records)
    assert only_rank(indexed, 1).ends == only_rank(whole, 1).ends
    assert list(only_rank(indexed, 1).of(Span)) == list(only_rank(whole, 1).of(Span))
    told = [compared(Run(only_rank(log, 1)), Run(log), None, ("rank 1", "all")) for log in (whole, indexed)]
    assert told[0].rows
    assert told[0] == told[1]
