"""Code: graphs at each stage, pieces, and the code that was generated, with the lines that they come from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from compdbg.events import FrameCode, GeneratedCode, Graph, Piece, TraceArtifact, Where
from compdbg.events.guards import LOADED
from compdbg.views.base import Column, Source, View
from compdbg.views.bytecode import decompiled
from compdbg.views.code import BYTECODE
from compdbg.views.explorer.base import Block, Code, CodeLine, Page, Place
from compdbg.views.explorer.words import facts, listing
from compdbg.views.places import counted, place

_FROM = re.compile(
    r"# File: (?P<file>.+?):(?P<line>\d+) in (?P<function>\S+?),? code: (?P<code>.*)$", re.MULTILINE
)
_ORDER = (
    BYTECODE,
    "dynamo",
    "piece",
    "aot-joint",
    "aot-forward",
    "aot-backward",
    "aot-inference",
    "post-grad",
    "code",
)


class TextRow(Struct, frozen=True, kw_only=True):
    """A text of the run: a graph at a stage, generated code, a record of torch's trace."""

    graph: str
    stage: str
    ops: str
    digest: str
    rank: int | None
    process: str
    event: str


def code_view(source: Source) -> View:
    rows = _rows(source)
    return View(
        name="code",
        title="Code: graphs, pieces, and what was generated",
        items=rows,
        columns=(
            Column("graph", lambda r: r.graph),
            Column("stage", lambda r: r.stage, role=lambda r: "good" if r.stage == "code" else ""),
            Column("ops", lambda r: r.ops, wide=True),
            Column("rank", lambda r: "" if r.rank is None else str(r.rank), align="right"),
        ),
        lines=_lines(source, rows),
        empty="No graph was recorded: nothing was compiled, or the run was made with --no-source.",
    )


def _lines(source: Source, rows: list[TextRow]) -> list[str]:
    if not rows:
        return []
    said = [f"{counted(len(rows), 'text')} of {counted(len({r.graph for r in rows}), 'graph')}"]
    log = source.run.log
    known = {(header.process, code.compile_id) for header, code in log.of(FrameCode)}
    compiled = {(c.process, c.compile_id) for c in source.run.frames.compiles if c.result == "compiled"}
    without = len(compiled - known) + sum(e.compile_id == LOADED for e in source.run.entries)
    if without:
        frames = counted(without, "compiled frame")
        said.append(
            f"no bytecode of {frames}: loaded compiled from a cache, or recorded by an earlier compdbg"
        )
    return said


def _rows(source: Source) -> list[TextRow]:
    log, rows = source.run.log, list[TextRow]()

    def add(header: object, graph: str, stage: str, ops: str, digest: str | None) -> None:
        if digest:
            h = header
            rows.append(
                TextRow(
                    graph=graph, stage=stage, ops=ops, digest=digest,
                    rank=h.rank, process=h.process, event=h.id,  # type: ignore[attr-defined]
                )
            )  # fmt: skip

    for header, graph in log.of(Graph):
        add(header, graph.graph, graph.stage, _ops(graph.ops), graph.text)
    for header, frame in log.of(FrameCode):
        add(header, frame.compile_id, BYTECODE, f"what Dynamo runs for {frame.name}", frame.text)
    for header, piece in log.of(Piece):
        add(header, f"{piece.graph} {piece.piece}", "piece", piece.split_op or "", piece.text)
    for header, code in log.of(GeneratedCode):
        kernels = counted(code.kernels, "kernel") if code.kernels is not None else ""
        add(header, code.graph, "code", kernels, code.text)
    for header, artifact in log.of(TraceArtifact):
        add(header, artifact.compile_id or "", artifact.name, "a record of torch's trace", artifact.text)
    order = {stage: n for n, stage in enumerate(_ORDER)}
    return sorted(rows, key=lambda r: (r.process, _natural(r.graph), order.get(r.stage, len(order))))


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers by their value: `10/0` after `9/0`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _ops(ops: dict[str, int]) -> str:
    return " ".join(f"{op}×{n}" if n > 1 else op for op, n in ops.items())


def text_page(source: Source, row: TextRow) -> Page:
    text = source.run.log.text(row.digest)
    title = f"{row.graph} {row.stage}"
    if text is None:
        said = "Its text is not in this run: it was made with --no-source, or its payload is lost."
        return Page(title=title, blocks=facts(("", title, "title"), ("", said)))
    if row.stage == BYTECODE:
        return _bytecode_page(row, text, title)
    made_from = _provenance(text)
    blocks: list[Block] = [*facts(("", title, "title"), ("ops", row.ops))]
    if made_from:
        lines = [f"{place(where)}  {code}" for where, code in made_from]
        blocks.append(listing("made from these lines", lines, "python"))
    lines_of = [CodeLine(line, "", n) for n, line in enumerate(text.splitlines(), 1)]
    blocks.append(Code(lines_of, title=f"its text, {counted(len(lines_of), 'line')}"))
    return Page(title=title, blocks=blocks, where=made_from[0][0] if made_from else None)


def _bytecode_page(row: TextRow, text: str, title: str) -> Page:
    told = decompiled(text)
    blocks: list[Block] = [*facts(("", title, "title"), ("is", row.ops), ("", told.why, "warn"))]
    shown = "its instructions" if told.why else "decompiled by depyf"
    numbered = [CodeLine(line, "", n) for n, line in enumerate(told.text.splitlines(), 1)]
    blocks.append(Code(numbered, title=shown, language="text" if told.why else "python"))
    return Page(title=title, blocks=blocks)


def _provenance(text: str) -> Sequence[tuple[Where, str]]:
    """The source lines that torch names in the text, each once, in the order in which they come."""
    found: dict[tuple[str, str], tuple[Where, str]] = {}
    for line in _FROM.finditer(text):
        where = Where(line["file"].strip(), int(line["line"]), line["function"])
        found.setdefault((line["file"], line["line"]), (where, line["code"].strip()))
    return list(found.values())


CODE = Place(
    name="code",
    letter="v",
    title="Code",
    view=code_view,
    page=text_page,
    key=lambda r: f"{r.event} {r.stage}",
    row=TextRow,
    slow_page=lambda r: r.stage == BYTECODE,
)
