"""Events that were read hold once what they have in common, and say what they did."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from compdbg.events import Header, PassRun, Span, UnknownEvent, Where
from compdbg.store.positions import Positions
from compdbg.store.reader import read_log
from compdbg.store.sharing import Sharing
from tests.tui.runs import Builder, everything


def ran(**more: object) -> PassRun:
    """As a reader makes it: no text of it is anybody else's."""
    fields = {"kind": "pass-run", "pass_name": "tidy up", "graph": "0/0 all", "index": 1, **more}
    return msgspec.json.decode(msgspec.json.encode(fields), type=PassRun)


def test_equal_texts_and_places_are_one_object() -> None:
    where = {"file": "/a/model.py", "line": 3, "function": "forward"}
    first, second = ran(where=where), ran(where=where)
    assert first.pass_name is not second.pass_name
    sharing = Sharing()
    for event in (first, second):
        sharing.share(Header("1-ab", 1, 0.0, "run"), event)
    assert first == second == ran(where=where)
    assert first.pass_name is second.pass_name
    assert first.graph is second.graph
    assert first.where is second.where == Where("/a/model.py", 3, "forward")
    assert first.op_delta is second.op_delta == {}


def test_what_counts_something_is_its_own() -> None:
    first, second = ran(op_delta={"add": 1}), ran(op_delta={"add": 1})
    sharing = Sharing()
    sharing.share(Header("1-ab", 1, 0.0), first)
    sharing.share(Header("1-ab", 2, 0.0), second)
    assert first.op_delta is not second.op_delta


def test_events_of_a_kind_that_is_not_known() -> None:
    event = UnknownEvent("of the future", {"says": "x"})
    Sharing().share(Header("1-ab", 1, 0.0), event)
    assert event == UnknownEvent("of the future", {"says": "x"})


def test_a_log_says_the_same_as_its_lines(tmp_path: Path) -> None:
    folder = everything(tmp_path / "run")
    (path,) = folder.glob("*.jsonl")
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    records = read_log(folder).records
    assert [r.header.seq for r in records] == [line["seq"] for line in lines]
    for record, line in zip(records, lines, strict=True):
        said = msgspec.to_builtins(record.event)
        assert {key: value for key, value in line.items() if key in said} == {
            key: value for key, value in said.items() if key in line
        }
    assert len({id(r.header.process) for r in records}) == 1


def test_positions_by_id(tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    run.rank = 1
    run.start()
    log = read_log(run.folder)
    for position, record in enumerate(log.records):
        assert log.position(record.id) == position
        assert log.by_id[record.id] is record
    assert len(log.by_id) == len(log.records)
    assert list(log.by_id) == [record.id for record in log.records]


@pytest.mark.parametrize(
    "id", ["", "1000-abcdef", "1000-abcdef:", "1000-abcdef:01", "1000-abcdef:99", "x:1", "1:-1"]
)
def test_no_such_event(tmp_path: Path, id: str) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    log = read_log(run.folder)
    assert log.position(id) is None
    assert log.by_id.get(id) is None


def test_numbers_that_leave_gaps_repeat_or_are_beyond_all_reason() -> None:
    numbers = [3, 1, 4_000_000_000_000, 3, 70_000]
    positions = Positions(Header("p", n, 0.0) for n in numbers)
    found = {n: positions.of(f"p:{n}") for n in (*numbers, 2, 0)}
    assert found == {3: 3, 1: 1, 4_000_000_000_000: 2, 70_000: 4, 2: None, 0: None}


def test_passes_that_changed_their_graph_are_a_part_of_all(tmp_path: Path) -> None:
    from compdbg.model.run import load

    run = load(everything(tmp_path / "run"))
    assert run.changes == [each for each in run.passes if each.changed] != []


def test_an_event_without_texts() -> None:
    event = Span(name="compile", duration_s=1.0)
    Sharing().share(Header("1-ab", 1, 0.0), event)
    assert event == Span(name="compile", duration_s=1.0)
