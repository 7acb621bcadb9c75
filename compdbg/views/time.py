"""Where the time went: start-up, import, and the phases of compiling as a tree with their own time."""

from __future__ import annotations

from compdbg.model.time import IMPORT, Phase, ProcessTime, Times
from compdbg.views.base import Column, Source, View
from compdbg.views.places import counted, duration

SHOWN = 0.01
"""The part of its process's compile time from which on a phase is shown as a row of the text."""


def time(source: Source) -> View:
    times = source.run.times
    shown, left_out = _shown(times.phases)
    return View(
        name="time",
        title="Where the time went",
        lines=[*_lines(times), *left_out],
        items=times.phases,
        shown=shown,
        columns=(
            Column(
                "phase", lambda p: "  " * p.depth + p.span + (" (still open)" if p.open else ""), wide=True
            ),
            Column("compile", lambda p: p.compile_id or ""),
            Column("rank", lambda p: "" if p.rank is None else str(p.rank)),
            Column("start", lambda p: f"{p.start_s:.2f} s", align="right"),
            Column("took", lambda p: duration(p.duration_s), align="right"),
            Column("itself", lambda p: duration(p.self_s), align="right"),
        ),
        empty="no phase was timed: nothing was compiled",
    )


def _lines(times: Times) -> list[str]:
    return [line for process in times.processes for line in _of_process(process, times)]


def _of_process(process: ProcessTime, times: Times) -> list[str]:
    who = f"rank {process.rank}" if process.rank is not None else f"process {process.process}"
    parts = [f"{duration(process.wall_s)} in all"]
    if process.import_s is not None:
        parts.append(f"{duration(process.import_s)} importing torch")
    first = next((p for p in times.phases if p.process == process.process and p.span != IMPORT), None)
    if first is not None:
        parts.append(f"the first compile after {duration(first.start_s)}")
        parts.append(f"{duration(process.compile_s)} compiling")
        parts.append(f"{duration(process.unaccounted_s)} of that in no phase of its own")
    return [f"{who}: {', '.join(parts)}"]


def _shown(phases: list[Phase]) -> tuple[list[Phase], list[str]]:
    """The phases that cost something, and a sentence on the others."""
    least = SHOWN * max((p.duration_s for p in phases if p.span != IMPORT), default=0.0)
    kept = [p for p in phases if p.duration_s >= least or p.open]
    rest = len(phases) - len(kept)
    return kept, [f"{counted(rest, 'phase')} below {duration(least)} not shown"] if rest else []
