"""Health and `recorder-degraded`: what the recorder says of itself, and when that is a finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from compdbg.events import ChildEnd, Event, EventsLost, HookError, HookState, ProcessMissed, ProcessStart
from compdbg.findings.base import Finding
from compdbg.findings.recorder_degraded import recorder_degraded
from compdbg.model.run import Run, load
from compdbg.record.lines import Lines
from compdbg.record.writer import Writer
from compdbg.views.base import Source
from compdbg.views.health import health

START = ProcessStart(pid=1, ppid=0, argv=["x.py"], executable="python", python="3.11")
WORKS = HookState(hook="guards", state="works", module="torch._dynamo.guards")


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[..., Run]:
    """A run of one process with these events."""

    def make(*events: Event) -> Run:
        lines = Lines(str(tmp_path))
        for event in events:
            Writer(lines).write(event)
        lines.close()
        return load(tmp_path)

    return make


def found(run: Run) -> list[Finding]:
    return list(recorder_degraded(run))


def rows(run: Run) -> dict[str, dict[str, object]]:
    items = [msgspec.to_builtins(item) for item in health(Source(run, [])).items]
    return {item["hook"]: item for item in items}


def test_hooks_that_work_are_no_finding(run_of: Callable[..., Run]) -> None:
    run = run_of(START, WORKS, HookState(hook="vllm", state="unused", detail="switched off"))
    assert found(run) == []
    assert rows(run)["guards"] == {"hook": "guards", "state": "works", "detail": None, "lost_events": 0}
    assert rows(run)["vllm"]["detail"] == "switched off"
    assert rows(run)["passes"]["state"] == "unused", "its module was never imported"
    assert rows(run)["log"]["state"] == rows(run)["processes"]["state"] == "works"


def test_the_worst_part_is_the_state_of_a_hook(run_of: Callable[..., Run]) -> None:
    run = run_of(
        START,
        WORKS,
        HookState(hook="guards", state="degraded", detail="torch.x:f takes no y", module="torch.x"),
        HookState(hook="passes", state="absent", detail="torch.z:g: not here", module="torch.z"),
        WORKS,
    )
    guards, passes = found(run)
    assert (
        guards.title == "the hook 'guards' worked in part only: what it watches may be missing from this run"
    )
    assert guards.cause == "torch.x:f takes no y. The program was not affected."
    assert guards.evidence == [run.log.records[2].id]
    assert passes.data == {"kind": "hook", "hook": "passes", "state": "absent", "errors": 0}
    assert "could not be installed" in passes.title
    assert {f.severity for f in found(run)} == {"warning"}


def test_a_hook_that_raised_is_one_finding_however_often(run_of: Callable[..., Run]) -> None:
    errors = [HookError(hook="guards", error="KeyError: 'x'", count=count) for count in (1, 10, 100)]
    run = run_of(START, WORKS, *errors, HookError(hook="guards", error="ValueError: y"))
    (finding,) = found(run)
    assert finding.cause == "raised KeyError: 'x'; raised ValueError: y. The program was not affected."
    assert finding.data["errors"] == 101
    assert rows(run)["guards"]["state"] == "degraded"
    assert rows(run)["guards"]["lost_events"] == 101


def test_ranks_with_the_same_fault_are_one_finding(run_of: Callable[..., Run]) -> None:
    bad = HookState(hook="guards", state="absent", detail="not here", module="torch.x")
    run_of(START, bad)
    run = run_of(START, bad)
    (finding,) = found(run)
    assert finding.cause == "not here. The program was not affected."
    assert len(finding.evidence) == 2


def test_events_lost(run_of: Callable[..., Run]) -> None:
    run = run_of(START, EventsLost(count=3, reason="No space left on device"))
    (finding,) = found(run)
    assert finding.title == "3 events are missing from the log"
    assert finding.data == {"kind": "events", "lost": 3, "damaged": 0}
    assert rows(run)["log"]["lost_events"] == 3


def test_processes_missed(run_of: Callable[..., Run]) -> None:
    run = run_of(START, ProcessMissed(argv=["python", "-S", "w.py"], reason="python -S starts nothing"))
    (finding,) = found(run)
    assert finding.title == "1 process was not recorded: python -S w.py"
    assert rows(run)["processes"]["state"] == "degraded"


def test_a_program_that_began_no_recording(run_of: Callable[..., Run]) -> None:
    (finding,) = found(run_of(ChildEnd(pid=9, exit_status=0)))
    assert finding.data == {"kind": "processes", "count": 1}


def test_a_process_without_a_last_word_is_no_fault(run_of: Callable[..., Run]) -> None:
    assert found(run_of(START, ChildEnd(pid=1, signal=9))) == []
