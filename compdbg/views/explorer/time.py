"""Time: the start-up as a waterfall for each process, with the time that no phase accounts for."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from compdbg.model.time import Phase, ProcessTime
from compdbg.views.base import Column, Source, View
from compdbg.views.explorer.base import Block, Page, Place
from compdbg.views.explorer.words import facts, listing
from compdbg.views.places import counted, duration
from compdbg.views.time import SHOWN
from compdbg.views.time import time as time_told

BAR = 24
"""Columns of a waterfall's bar."""


INSIDE = 40
"""Phases inside of one that its page lists, at most."""


class TimeRow(Struct, frozen=True, kw_only=True, gc=False):
    """A phase, or time of a process in none: `unaccounted`. `bar` is where in its process it was.

    `inside`, `parts`: how many phases it has inside, and a line for each of the longest.
    """

    span: str
    depth: int
    compile_id: str | None
    start_s: float
    duration_s: float
    self_s: float
    open: bool
    unaccounted: bool
    bar: str
    loud: bool
    event: str
    process: str
    rank: int | None
    inside: int = 0
    parts: list[str] = []


def time_view(source: Source) -> View:
    times = source.run.times
    rows: list[TimeRow] = []
    for process in times.processes:
        mine = [p for p in times.phases if p.process == process.process]
        rows += _of_process(process, mine)
    return View(
        name="time",
        title="Time: where the start went",
        items=rows,
        shown=[r for r in rows if r.loud],
        columns=(
            Column("phase", _phase, wide=True, role=_role),
            Column("took", lambda r: duration(r.duration_s), align="right"),
            Column("itself", lambda r: duration(r.self_s), align="right"),
            Column("when", lambda r: r.bar, role=lambda r: _role(r) or "bar"),
            Column("start", lambda r: f"{r.start_s:.2f} s", align="right"),
            Column("rank", lambda r: "" if r.rank is None else str(r.rank), align="right"),
        ),
        lines=[line for line in time_told(source).lines if not line.endswith("not shown")],
        empty="No phase was timed: nothing was compiled.",
    )


def _of_process(process: ProcessTime, phases: list[Phase]) -> list[TimeRow]:
    whole = max([process.wall_s, *(p.start_s + p.duration_s for p in phases)]) or 1.0
    least = SHOWN * max((p.duration_s for p in phases), default=0.0)
    inside: dict[str, list[Phase]] = defaultdict(list)
    for phase in phases:
        if phase.parent_event is not None:
            inside[phase.parent_event].append(phase)
    rows = [_row(p, inside.get(p.event, ()), whole, loud=p.duration_s >= least or p.open) for p in phases]
    covered = process.compile_s + (process.import_s or 0.0)
    rest = max(0.0, process.wall_s - covered)
    missing = [
        ("outside any phase: the program itself", rest),
        ("compiling, in no phase of its own", process.unaccounted_s),
    ]
    rows += [_unaccounted(process, text, s, whole) for text, s in missing if s > 0.01 * whole]
    return rows


def _row(phase: Phase, inside: Sequence[Phase], whole: float, *, loud: bool) -> TimeRow:
    longest = heapq.nsmallest(INSIDE, inside, key=lambda p: -p.duration_s)
    return TimeRow(
        span=phase.span,
        depth=phase.depth,
        compile_id=phase.compile_id,
        start_s=phase.start_s,
        duration_s=phase.duration_s,
        self_s=phase.self_s,
        open=phase.open,
        unaccounted=False,
        bar=bar(phase.start_s, phase.duration_s, whole),
        loud=loud,
        event=phase.event,
        process=phase.process,
        rank=phase.rank,
        inside=len(inside),
        parts=[f"{duration(p.duration_s):>10}  {p.span}" for p in longest],
    )


def _unaccounted(process: ProcessTime, text: str, seconds: float, whole: float) -> TimeRow:
    return TimeRow(
        span=text,
        depth=0,
        compile_id=None,
        start_s=0.0,
        duration_s=seconds,
        self_s=seconds,
        open=False,
        unaccounted=True,
        bar="░" * max(1, round(BAR * seconds / whole)),
        loud=True,
        event=f"{process.process} {text}",
        process=process.process,
        rank=process.rank,
    )


def bar(start: float, lasted: float, whole: float) -> str:
    """Where in the whole a phase was: blanks, then as many blocks as it lasted, one at least."""
    first = min(BAR - 1, max(0, int(BAR * start / whole)))
    count = max(1, round(BAR * lasted / whole))
    return (" " * first + "█" * min(count, BAR - first)).ljust(BAR)


def _phase(row: TimeRow) -> str:
    mark = "? " if row.unaccounted else ""
    return "  " * min(row.depth, 8) + mark + row.span + (" (still open)" if row.open else "")


def _role(row: TimeRow) -> str:
    return "bad" if row.open else "warn" if row.unaccounted else ""


def phase_page(source: Source, row: TimeRow) -> Page:
    if row.unaccounted:
        text = "No phase that torch or we time covers this: imports of the program, its own work, waiting."
        blocks: list[Block] = [
            *facts(("", row.span, "title"), ("took", duration(row.duration_s)), ("", text))
        ]
        return Page(title=row.span, blocks=blocks)
    blocks = [
        *facts(
            ("", row.span, "title"),
            ("took", f"{duration(row.duration_s)}, {duration(row.self_s)} of it itself"),
            ("began", f"{row.start_s:.3f} s after the process"),
            ("compile", row.compile_id),
            ("open", "the log ends before it did" if row.open else None, "bad"),
            ("process", f"{row.process}{'' if row.rank is None else f', rank {row.rank}'}"),
        )
    ]
    if row.parts:
        blocks.append(listing(f"{counted(row.inside, 'phase')} inside", row.parts))
    return Page(title=row.span, blocks=blocks)


TIME = Place(
    name="time",
    letter="t",
    title="Time",
    view=time_view,
    page=phase_page,
    key=lambda r: r.event,
    row=TimeRow,
    about=lambda r, finding: r.event in finding.evidence,
)
