"""A program that failed: its exception is said wherever a verdict is, and never "no fault"."""

from __future__ import annotations

from pathlib import Path

import pytest

from compdbg.events import ChildEnd, Event, Header, ProcessEnd, ProcessStart, Where
from compdbg.findings.base import Cost, Finding
from compdbg.model.run import Run
from compdbg.store.reader import Log, Record
from compdbg.views.base import Source
from compdbg.views.ending import nothing_found
from compdbg.views.explorer.home import home_view
from compdbg.views.findings import findings as findings_view
from compdbg.views.summary import facts, verdict

BOOM = ProcessEnd(uncaught="ValueError", message="no good.\nreally", where=Where("/far/train.py", 12, "step"))
REFUSED = ProcessEnd(uncaught="ConfigError", message="no such backend", where=Where("/far/train.py", 3))


def run_of(*events: tuple[str, Event], exit_status: int | None = 1, signal: int | None = None) -> Run:
    records = [
        Record(Header(process=process, seq=n, time=float(n), rank=1 if process == "worker" else None), event)
        for n, (process, event) in enumerate(events, 1)
    ]
    manifest = {"complete": True, "exit_status": exit_status, "signal": signal, "duration_s": 2.0}
    return Run(Log(Path("r"), manifest, records))


def started(pid: int, how: str = "run") -> ProcessStart:
    return ProcessStart(pid=pid, ppid=1, argv=[], executable="", python="3", how=how)


def finding(severity: str, results: str | None = None, **data: str) -> Finding:
    return Finding(
        id="F1",
        code="compile-failed",
        severity=severity,
        title="something is wrong",
        cause="",
        suggestion="",
        cost=Cost(results=results),
        data=data,
    )


FAILED = run_of(("main", started(7)), ("main", BOOM), ("sup", ChildEnd(pid=7, exit_status=1)))


def test_an_exception_is_said_and_where() -> None:
    wanted = "The program ended with ValueError at train.py:12: no good. No finding explains it."
    assert verdict(Source(FAILED, [])) == wanted
    ended = dict(facts(Source(FAILED, [])))["ended"]
    assert ended == "with exit status 1 after 2.0 s; ValueError at train.py:12: no good"


@pytest.mark.parametrize(
    ("exit_status", "signal", "wanted"),
    [
        (3, None, "The program ended with exit status 3. No finding explains it."),
        (None, 11, "The program was ended by signal 11 (SIGSEGV). No finding explains it."),
        (0, None, "No fault was found in this run."),
    ],
)
def test_an_end_without_an_exception(exit_status: int | None, signal: int | None, wanted: str) -> None:
    assert verdict(Source(run_of(exit_status=exit_status, signal=signal), [])) == wanted


def test_the_first_of_several_processes_is_the_cause() -> None:
    run = run_of(
        ("main", started(7)),
        ("worker", started(8)),
        ("worker", BOOM),
        ("main", ProcessEnd(uncaught="ChildFailedError", message="a worker failed")),
        ("sup", ChildEnd(pid=7, exit_status=1)),
    )
    assert verdict(Source(run, [])).startswith("Rank 1 ended with ValueError at train.py:12")


def test_a_program_that_came_to_a_good_end_in_spite_of_a_childs_exception() -> None:
    run = run_of(("main", started(7)), ("other", started(8)), ("other", BOOM), exit_status=0)
    assert run.summary.uncaught is None


def test_a_recorded_block_sees_no_exit_status() -> None:
    block = run_of(("main", started(7, "record")), ("main", BOOM), exit_status=None)
    assert verdict(Source(block, [])).startswith("The recorded block ended with ValueError at train.py:12")
    left = run_of(
        ("main", started(7, "record")), ("main", ProcessEnd(uncaught="SystemExit")), exit_status=None
    )
    assert verdict(Source(left, [])) == "No fault was found in this run."


def test_a_finding_of_the_same_failure_is_enough() -> None:
    refused = run_of(("main", started(7)), ("main", REFUSED))
    told = finding("error", "failed", error="ConfigError")
    assert verdict(Source(refused, [told])) == "1 error. Worst first: something is wrong"


@pytest.mark.parametrize(
    "other",
    [finding("warning"), finding("error", "wrong"), finding("error", "failed", error="Unsupported")],
)
def test_other_findings_do_not_take_the_exceptions_place(other: Finding) -> None:
    said = verdict(Source(FAILED, [other]))
    assert said.startswith("The program ended with ValueError at train.py:12: no good. 1 ")
    assert said.endswith(". Worst first: something is wrong")


def test_no_list_says_that_nothing_was_wrong() -> None:
    wanted = "No findings: nothing that was recorded explains how the program ended."
    source = Source(FAILED, [])
    assert {nothing_found(FAILED), findings_view(source).empty, home_view(source).empty} == {wanted}
