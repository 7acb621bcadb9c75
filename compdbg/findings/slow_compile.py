"""`slow-compile`: compiling took a large part of the run; the phases and pieces that cost most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from compdbg.events import Where
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import listed
from compdbg.model.run import Run
from compdbg.model.time import Phase, ProcessTime

ALWAYS_S = 20.0
"""Compile time that is worth knowing in any run."""
PART_S = 10.0
PART = 0.5
"""Or this much, where it is more than this part of the process's time."""
_MOST = 3


def slow_compile(run: Run) -> Iterator[Finding]:
    """At most one finding: of the process that compiled longest."""
    slowest = max(run.times.processes, key=lambda p: p.compile_s, default=None)
    if slowest is not None and _is_slow(slowest):
        yield _finding(run, slowest)


def _is_slow(process: ProcessTime) -> bool:
    long = process.compile_s > PART_S and process.compile_s > PART * process.wall_s
    return long or process.compile_s > ALWAYS_S


def _finding(run: Run, process: ProcessTime) -> Finding:
    mine = run.times.compiling(process.process)
    phases = _sums(mine, lambda p: p.span, own=True)
    pieces = _sums([p for p in mine if p.depth == 0], lambda p: p.compile_id or "runtime", own=False)
    part = process.compile_s / process.wall_s if process.wall_s else 0.0
    return Finding(
        code="slow-compile",
        severity="info",
        title=f"compiling took {process.compile_s:.1f} s, {part:.0%} of the process's time",
        cause=(
            f"Most of it in {listed([f'{name} ({s:.1f} s)' for name, s in phases[:_MOST]])}; "
            f"by compile: {listed([f'{name} ({s:.1f} s)' for name, s in pieces[:_MOST]])}."
            + _unaccounted(process.unaccounted_s)
        ),
        suggestion=_advice(run, phases[0][0]),
        where=_where(run, mine),
        evidence=[p.event for p in sorted(mine, key=lambda p: -p.self_s)[:_MOST]],
        cost=Cost(results="same", seconds=round(process.compile_s, 3)),
        data={
            "seconds": round(process.compile_s, 3),
            "part": round(part, 3),
            "phases": dict(phases[:10]),
            "pieces": dict(pieces[:10]),
            "unaccounted_s": round(process.unaccounted_s, 3),
        },
    )


def _where(run: Run, phases: list[Phase]) -> Where | None:
    """The function whose compile took longest."""
    slowest = max((p for p in phases if p.depth == 0), key=lambda p: p.duration_s)
    for compiled in run.frames.compiles:
        if compiled.process == slowest.process and compiled.compile_id == slowest.compile_id:
            return compiled.where
    return None


def _sums(phases: list[Phase], key: Callable[[Phase], str], *, own: bool) -> list[tuple[str, float]]:
    sums: dict[str, float] = defaultdict(float)
    for phase in phases:
        sums[key(phase)] += phase.self_s if own else phase.duration_s
    return [(name, round(s, 3)) for name, s in sorted(sums.items(), key=lambda item: -item[1])]


def _unaccounted(seconds: float) -> str:
    return f" {seconds:.1f} s are in no phase of their own." if seconds >= 0.05 else ""


def _advice(run: Run, phase: str) -> str:
    if run.summary.cold is False:
        return "Caches were hit; what remains is tracing. Compile one block and reuse it for all layers."
    if "async_compile" in phase or "compile_file" in phase:
        return (
            "Kernels are being compiled: a warm cache saves it (keep TORCHINDUCTOR_CACHE_DIR), more "
            "compile threads shorten it (torch._inductor.config.compile_threads)."
        )
    if "autotun" in phase or "benchmark" in phase:
        return (
            'Autotuning measures candidates: mode="max-autotune" costs this; keep its results in the cache.'
        )
    return "Keep the caches between runs; compile a repeated block once instead of the whole model."
