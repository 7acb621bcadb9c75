"""Phases without an end, from recorded times: what is a stall, what is only slow, and who waited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compdbg.events import (
    ChildEnd,
    Event,
    FrameStart,
    Header,
    ProcessEnd,
    ProcessStart,
    Span,
    SpanBegin,
    Where,
)
from compdbg.findings.stalled import stalled
from compdbg.model.run import Run
from compdbg.store.reader import Log, Record

OVER = {"complete": True, "started": "1970-01-01T00:00:00+00:00"}


def run_of(*lines: tuple[str, float, Event], manifest: dict[str, Any] | None = None) -> Run:
    """A run of these events, each with its process (`r0`: of rank 0) and time; a span is the parent
    of what its process says next."""
    records = []
    for seq, (process, time, event) in enumerate(lines, 1):
        rank = int(process[1:]) if process.startswith("r") else None
        begun = [r for r in records if r.header.process == process and isinstance(r.event, SpanBegin)]
        parent = begun[-1].header.seq if begun and isinstance(event, SpanBegin) else None
        header = Header(process=process, seq=seq, time=time, rank=rank, parent=parent)
        records.append(Record(header, event))
    return Run(Log(Path(), manifest or {}, records))


def started(pid: int) -> ProcessStart:
    return ProcessStart(pid=pid, ppid=0, argv=["serve.py"], executable="python", python="3.11")


FRAME = FrameStart(
    frame="m.py:3:forward", compile_id="0/0", name="forward", where=Where("m.py", 3, "forward")
)
OUTER, INNER = (
    SpanBegin(name="backend_compile", compile_id="0/0"),
    SpanBegin(name="codegen", compile_id="0/0"),
)


def rank_0_hangs(last: float, manifest: dict[str, Any] | None = None) -> Run:
    return run_of(
        ("r0", 0, started(1)),
        ("r1", 0, started(2)),
        ("r1", 5, Span(name="backend_compile", duration_s=1)),
        ("r0", 10, FRAME),
        ("r0", 11, OUTER),
        ("r0", 12, INNER),
        ("launcher", last, Span(name="import torch", duration_s=1)),
        manifest=manifest,
    )


def test_an_open_phase_of_more_than_a_minute_and_who_waits() -> None:
    (finding,) = stalled(rank_0_hangs(100))
    assert finding.title == "rank 0 has been for 88 s in codegen of forward; 1 rank (1) waited"
    assert finding.severity == "error"
    assert finding.where == Where("m.py", 3, "forward")
    assert finding.data["phases"] == ["backend_compile", "codegen"]
    assert (finding.data["ranks"], finding.data["waiting"]) == ([0], [1])


def test_half_a_minute_is_none() -> None:
    assert list(stalled(rank_0_hangs(42))) == []


def test_the_end_of_the_run_counts_where_no_event_follows() -> None:
    run = rank_0_hangs(13, {**OVER, "duration_s": 200.0})
    (finding,) = stalled(run)
    assert finding.data["died"]  # the run is over, and rank 0 never said its last word


def test_ranks_that_hang_in_the_same_phase_hang_together() -> None:
    both = [(r, t, e) for r in ("r0", "r1") for t, e in ((1.0, started(int(r[1]))), (2.0, OUTER))]
    (finding,) = stalled(run_of(*both, ("launcher", 90, Span(name="import torch", duration_s=1))))
    assert finding.data["ranks"] == [0, 1]
    assert finding.data["waiting"] == []


def test_killed_in_a_phase() -> None:
    lines = [("a", 0, started(7)), ("a", 1, FRAME), ("a", 2, OUTER), ("s", 4, ChildEnd(pid=7, signal=9))]
    (finding,) = stalled(run_of(*lines))
    assert finding.title == "the program died in backend_compile of forward"
    assert finding.data["died"]


def test_left_by_os_exit_in_a_phase() -> None:
    lines = [("a", 0, started(7)), ("a", 1, FRAME), ("a", 2, OUTER), ("s", 4, ChildEnd(pid=7, exit_status=3))]
    (finding,) = stalled(run_of(*lines))
    assert finding.data["died"]


def test_a_last_word_in_a_phase_is_no_death() -> None:
    """As of a program that ends while another thread compiles."""
    lines = [("a", 0, started(7)), ("a", 2, OUTER), ("a", 3, ProcessEnd())]
    assert list(stalled(run_of(*lines, ("s", 4, ChildEnd(pid=7, exit_status=0))))) == []


def test_killed_between_phases_is_none() -> None:
    ended = Span(name="backend_compile", duration_s=1, begin=2)
    lines = [("a", 0, started(7)), ("a", 2, OUTER), ("a", 3, ended), ("s", 4, ChildEnd(pid=7, signal=9))]
    assert list(stalled(run_of(*lines))) == []


def test_a_long_phase_that_ended_is_slow_and_no_stall() -> None:
    lines = [("a", 0, started(7)), ("a", 2, OUTER), ("a", 400, Span(name="x", duration_s=398, begin=2))]
    assert list(stalled(run_of(*lines))) == []


def test_a_worker_that_leaves_without_a_word_is_no_death() -> None:
    lines = [("a", 0, started(7)), ("w", 1, started(8)), ("w", 2, OUTER), ("a", 3, ProcessEnd())]
    assert list(stalled(run_of(*lines, manifest={**OVER, "duration_s": 3.0}))) == []
