"""Phases that began and never ended: what a process was in when it was last heard of, and who waited."""

from __future__ import annotations

import os
import time
from datetime import datetime

from msgspec import Struct

from compdbg.events import ChildEnd, FrameStart, ProcessEnd, ProcessStart, Where
from compdbg.model.time import Phase, Times
from compdbg.store.reader import Log

STALL_S = 60.0


class Stall(Struct, frozen=True, kw_only=True):
    """One process in one phase: the innermost that is open, with those around it, outermost first."""

    process: str
    rank: int | None
    phases: list[str]
    open_s: float
    """Since the innermost began."""
    died: bool
    frame: str
    where: Where | None
    waiting: list[int]
    """Ranks that have recorded nothing since, and have not ended."""
    events: list[str]


def build_stalls(log: Log, times: Times) -> list[Stall]:
    """One for each process with an open phase, if it died in it or has been in it for a minute."""
    ended = {header.process for header, _ in log.of(ProcessEnd)}
    dead = _dead(log, ended)
    now = _now(log)
    inside: dict[str, list[Phase]] = {}
    for phase in times.phases:
        if phase.open:
            inside.setdefault(phase.process, []).append(phase)
    found = []
    for process, phases in inside.items():
        stall = _stall(log, phases, process in dead, now)
        if stall.died or stall.open_s >= STALL_S:
            found.append(stall)
    return found


def _stall(log: Log, phases: list[Phase], died: bool, now: float) -> Stall:
    innermost = max(phases, key=lambda phase: (phase.depth, phase.start_s))
    header = log.by_id[innermost.event].header
    last = log.ends[header.process][1] if died else now
    compile_id = next((p.compile_id for p in reversed(phases) if p.compile_id), None)
    starts = [e for h, e in log.of(FrameStart) if (h.process, e.compile_id) == (header.process, compile_id)]
    return Stall(
        process=header.process,
        rank=header.rank,
        phases=[phase.span for phase in sorted(phases, key=lambda phase: phase.depth)],
        open_s=max(now if not died else last, last) - header.time,
        died=died,
        frame=starts[-1].name or starts[-1].frame if starts else "",
        where=starts[-1].where if starts else None,
        waiting=_waiting(log, header.process, header.rank, header.time),
        events=[phase.event for phase in phases],
    )


def _waiting(log: Log, process: str, rank: int | None, since: float) -> list[int]:
    """Other ranks of the same world that said nothing after `since` and did not leave before it."""
    if rank is None:
        return []
    gone = {h.process for h, _ in log.of(ProcessEnd) if h.time < since}
    ranks = {h.process: h.rank for h, _ in log.of(ProcessStart) if h.rank is not None}
    quiet = {
        number
        for other, number in ranks.items()
        if other != process
        and number not in (None, rank)
        and other not in gone
        and log.ends[other][1] <= since
    }
    return sorted(number for number in quiet if number is not None)


def _dead(log: Log, ended: set[str]) -> set[str]:
    """Processes without a last word whose end is known: their parent saw it, or the whole run is over."""
    gone = {event.pid for _, event in log.of(ChildEnd)}
    over = bool(log.manifest.get("complete"))
    return {
        header.process
        for header, event in log.of(ProcessStart)
        if header.process not in ended and (event.pid in gone or (over and header.rank is not None))
    }


def _now(log: Log) -> float:
    """The end of the run; of one that is still being written, now."""
    last = max((end for _, end in log.ends.values()), default=0.0)
    started, duration = log.manifest.get("started"), log.manifest.get("duration_s")
    if log.manifest.get("complete"):
        try:
            return max(last, datetime.fromisoformat(str(started)).timestamp() + float(duration or 0.0))
        except ValueError:
            return last
    return time.time() if _is_running(log) else last


def _is_running(log: Log) -> bool:
    """Whether the process that leads the run is alive, on this machine."""
    pid = log.manifest.get("pid")
    if not isinstance(pid, int) or log.manifest.get("host") != os.uname().nodename:
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
