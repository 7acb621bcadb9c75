"""Every compile of every frame: what it came to, how often it was called, how long it took."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from compdbg.events import Where
from compdbg.findings.recompile_groups import axis_of, outlook
from compdbg.findings.words import trend
from compdbg.model.frames import Compile
from compdbg.model.recompiles import History
from compdbg.views.base import Column, Source, View
from compdbg.views.places import counted, duration, place
from compdbg.views.symbols import SizeRow, Traced, life_lines, size_rows, sizes_traced


class FrameRow(Struct, frozen=True, kw_only=True):
    """One compile, or one frame that torch left alone (it has no compile id)."""

    frame: str
    compile_id: str | None
    where: Where | None
    result: str
    reason: str | None
    calls: int | None
    duration_ms: float | None
    name: str
    graph_ops: int | None
    resume_of: str | None
    process: str
    rank: int | None
    recompiled_for: list[str]
    call: int | None
    """The call of the frame that was compiled, from 1."""
    cause: str | None
    """What varied, of a recompile."""
    sizes: list[SizeRow]


def frames(source: Source) -> View:
    causes, traced = _causes(source), sizes_traced(source.run)
    rows = [_row(compiled, causes, traced) for compiled in source.run.frames.compiles]
    return View(
        name="frames",
        title="Frames",
        items=rows,
        columns=(
            Column("id", lambda r: r.compile_id or "-"),
            Column("frame", lambda r: r.name),
            Column("where", lambda r: place(r.where)),
            Column("result", lambda r: r.result),
            Column("calls", lambda r: "" if r.calls is None else str(r.calls), align="right"),
            Column(
                "time",
                lambda r: duration(None if r.duration_ms is None else r.duration_ms / 1e3),
                align="right",
            ),
            Column("why", _why, wide=True),
        ),
        lines=_lines(source, rows),
        empty="no frame reached Dynamo: nothing was asked to be compiled, or it was never called",
    )


def _row(compiled: Compile, causes: dict[str, str], traced: Traced) -> FrameRow:
    return FrameRow(
        frame=compiled.frame,
        compile_id=compiled.compile_id or None,
        where=compiled.where,
        result=compiled.result if compiled.result != "?" else "failed",
        reason=compiled.reason or ("the log ends before the compile did" if compiled.result == "?" else None),
        calls=compiled.calls,
        duration_ms=compiled.duration_ms,
        name=compiled.name,
        graph_ops=compiled.graph_ops,
        resume_of=compiled.resume_of,
        process=compiled.process,
        rank=compiled.rank,
        recompiled_for=[reason.text.partition(" # ")[0].strip() for reason in compiled.reasons],
        call=compiled.call,
        cause=causes.get(compiled.start),
        sizes=size_rows(traced, compiled),
    )


def _causes(source: Source) -> dict[str, str]:
    """What varied, by the event with which a recompile begins."""
    groups = [group for history in source.run.histories for group in history.groups]
    return {event: axis_of(group) for group in groups for event in group.events}


def _why(row: FrameRow) -> str:
    if row.reason:
        return row.reason
    if row.cause:
        on = f" on call {row.call}" if row.call is not None else ""
        return f"recompiled{on}: {row.cause} varies"
    return f"recompiled: {row.recompiled_for[0]}" if row.recompiled_for else ""


def _lines(source: Source, rows: list[FrameRow]) -> list[str]:
    if not rows:
        return []
    results = Counter(row.result for row in rows)
    text = ", ".join(f"{count} {result}" for result, count in results.most_common())
    return [
        f"{text}; {_breaks(source)}; {counted(len(source.run.frames.requests), 'request')} to compile",
        *(_history(history) for history in source.run.histories if history.groups),
        *life_lines(source.run),
    ]


def _breaks(source: Source) -> str:
    """Breaks by line and kind, as the finding has them; a frame that is compiled again meets them again."""
    met = [event for _, event in source.run.frames.breaks]
    lines = [(e.where.file, e.where.line) if e.where else (e.reason, 0) for e in met]
    kinds = {(*line, e.reason) for line, e in zip(lines, met, strict=True)}
    on = f" on {counted(len(set(lines)), 'line')}" if len(kinds) > len(set(lines)) else ""
    times = f", met {len(met)} times" if len(met) > len(kinds) else ""
    return counted(len(kinds), "graph break") + on + times


def _history(history: History) -> str:
    """What a function was compiled again for, and where that is heading."""
    own = [c for c in history.compiles if c.resume_of is None and c.result == "compiled"]
    entries = own[-1].entries if own else None
    of = f" of at most {entries}" if entries is not None else ""
    causes = "; ".join(
        f"{axis_of(g)} ({trend(g.values)})" if g.values else axis_of(g) for g in history.groups
    )
    text = f"{history.compiles[0].name}: {len(own)}{of} entries; recompiled for {causes}"
    hit = history.limit
    if hit is not None and hit.limit is not None:
        call = "a later call" if hit.limit.call is None else f"call {hit.limit.call}"
        return f"{text}; {'raises' if hit.limit.raises else 'eager'} from {call} on"
    return f"{text}.{outlook(history.forecast)}" if history.forecast is not None else text
