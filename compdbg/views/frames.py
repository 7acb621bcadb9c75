"""Every compile of every frame: what it came to, how often it was called, how long it took."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from compdbg.events import Where
from compdbg.model.frames import Compile
from compdbg.views.base import Column, Source, View
from compdbg.views.places import counted, duration, place


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


def frames(source: Source) -> View:
    rows = [_row(compiled) for compiled in source.run.frames.compiles]
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


def _row(compiled: Compile) -> FrameRow:
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
    )


def _why(row: FrameRow) -> str:
    if row.reason:
        return row.reason
    return f"recompiled: {row.recompiled_for[0]}" if row.recompiled_for else ""


def _lines(source: Source, rows: list[FrameRow]) -> list[str]:
    if not rows:
        return []
    results = Counter(row.result for row in rows)
    text = ", ".join(f"{count} {result}" for result, count in results.most_common())
    broken = len(source.run.frames.breaks)
    return [
        f"{text}; {counted(broken, 'graph break')}; {counted(len(source.run.frames.requests), 'request')} "
        "to compile"
    ]
