"""Times of two runs, where they differ beyond what machines and other programs on them account for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.compare.graphs import Change
from compdbg.compare.names import Names, script_of
from compdbg.model.run import Run

TIMES, SECONDS = 2.0, 5.0
"""A time differs clearly if it is so many times as long, and so many seconds longer."""
_PACE = 2.0
"""How much slower one run's machine may seem by its import of torch before that is no excuse."""


def time_changes(a: Run, b: Run) -> Iterator[Change]:
    """Compiling as a whole, and each frame."""
    mine, theirs = _times(a, Names(a)), _times(b, Names(b, script_of(b, a)))
    pace = _pace(_import_s(a), _import_s(b))
    for key in mine:
        if key in theirs and _clear(mine[key], theirs[key], pace):
            yield Change(key, f"{mine[key]:.1f} s", f"{theirs[key]:.1f} s")


def _times(run: Run, names: Names) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for compiled in run.frames.compiles:
        label = names.compiled(compiled.process, compiled.compile_id)
        found[f"compiling {label}"] += (compiled.duration_ms or 0.0) / 1e3
    if run.times.compile_s:
        found["compiling, in all"] = run.times.compile_s
    return dict(found)


def _import_s(run: Run) -> float | None:
    return max((p.import_s for p in run.times.processes if p.import_s is not None), default=None)


def _pace(a: float | None, b: float | None) -> float:
    """How many times as long the second run took for the same work, its import of torch."""
    if not a or not b:
        return 1.0
    return min(max(b / a, 1 / _PACE), _PACE)


def _clear(a: float, b: float, pace: float) -> bool:
    longer, shorter = max(a, b), min(a, b)
    excuse = max(pace, 1.0) if b > a else max(1 / pace, 1.0)
    return longer - shorter >= SECONDS and longer >= TIMES * excuse * max(shorter, 1e-9)
