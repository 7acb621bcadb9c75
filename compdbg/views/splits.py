"""The split: each piece in order, what it holds, what crosses its borders, which twin serves it."""

from __future__ import annotations

from compdbg.model.pipeline import Crossing, SplitPiece
from compdbg.views.base import Column, Source, View
from compdbg.views.places import counted


def splits(source: Source) -> View:
    pieces = source.run.pieces
    return View(
        name="splits",
        title="Pieces of the split graph",
        lines=_lines(pieces),
        items=pieces,
        columns=(
            Column("graph", lambda p: p.graph),
            Column("piece", lambda p: p.piece),
            Column("kind", lambda p: p.kind),
            Column("ops", lambda p: "" if p.ops is None else str(p.ops), align="right"),
            Column("split at", lambda p: p.split_op or ""),
            Column("twin of", lambda p: p.shared_with or ""),
            Column("compiled for", lambda p: " ".join(p.compiles)),
            Column("in", lambda p: _crossing(p.inputs), wide=True),
            Column("out", lambda p: _crossing(p.outputs), wide=True),
        ),
        empty="no graph was split",
    )


def _lines(pieces: list[SplitPiece]) -> list[str]:
    lines = [_sum(pieces)] if pieces else []
    if any(p.loaded for p in pieces):
        lines.append(
            "loaded from a cache: what the pieces hold and what crosses their borders "
            "was not observed in this run"
        )
    lines += [f"{p.piece} is no twin: {p.differs_by}" for p in pieces if p.differs_by]
    return lines


def _sum(pieces: list[SplitPiece]) -> str:
    compiled = [p for p in pieces if p.kind == "compiled"]
    unique = sum(p.shared_with is None for p in compiled)
    splitting = sum(p.kind == "splitting" for p in pieces)
    return f"{counted(len(compiled), 'compiled piece')}, {unique} of them unique; {splitting} splitting"


def _crossing(values: list[Crossing] | None) -> str:
    if values is None:
        return ""
    return " ".join(f"{v.name}[{','.join(v.shape)}]" if v.shape else f"{v.name}:{v.type}" for v in values)
