"""The split: each piece in order, what it holds, what crosses its borders, which twin serves it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from compdbg.model.pipeline import Crossing, SplitPiece, is_tuned
from compdbg.model.run import Run
from compdbg.views.base import Column, Source, View
from compdbg.views.places import counted

STATIC = "0"
"""The range of a piece that no size matters to."""
_OF_THE_MODEL = re.compile(r"_(parameters|buffers)_")
"""In the name that Dynamo gives to what it finds in a module."""


def splits(source: Source) -> View:
    pieces = source.run.pieces
    return View(
        name="splits",
        title="Pieces of the split graph",
        lines=_lines(pieces) + _trouble(source.run),
        items=pieces,
        columns=(
            Column("graph", lambda p: p.graph),
            Column("piece", lambda p: p.piece),
            Column("kind", lambda p: p.kind),
            Column("ops", lambda p: "" if p.ops is None else str(p.ops), align="right"),
            Column("split at", lambda p: p.split_op or ""),
            Column("twin of", lambda p: p.shared_with or ""),
            Column("compiled for", compiled_for),
            Column("in", lambda p: crossing(p.inputs), wide=True),
            Column("out", lambda p: crossing(p.outputs), wide=True),
        ),
        empty="no graph was split",
    )


def compiled_for(piece: SplitPiece) -> str:
    """`8 tuned, 1-`; `as piece_2` for a twin, which runs what that one was compiled to."""
    if piece.shared_with:
        return f"as {piece.shared_with}"
    return ", ".join(range_said(each, piece.options.get(each, {})) for each in piece.compiles)


def range_said(text: str, options: Mapping[str, str]) -> str:
    """A range or size that something is compiled for, and whether its kernels were chosen by timing."""
    return ("any size" if text == STATIC else text) + (" tuned" if is_tuned(options) else "")


def _lines(pieces: list[SplitPiece]) -> list[str]:
    lines = [_sum(pieces)] if pieces else []
    if any(p.loaded and p.inputs is None for p in pieces):
        lines.append(
            "loaded from a cache: what the pieces hold and what crosses their borders "
            "was not observed in this run"
        )
    lines += [f"{p.piece} is no twin: {p.differs_by}" for p in pieces if p.differs_by]
    return lines


def _trouble(run: Run) -> list[str]:
    """Names that match nothing, and values that can't cross."""
    lines = [
        f"splitting_ops: {op.name!r} matches nothing"
        + (f"; the graph has {op.nearest!r}" if op.nearest else "")
        for op in run.unmatched_split_ops
    ]
    return lines + [
        f"{crossing.value.name} can't cross from {crossing.piece} to {', '.join(crossing.taken_by)}: "
        f"{crossing.what}"
        for crossing in run.bad_crossings
    ]


def _sum(pieces: list[SplitPiece]) -> str:
    compiled = [p for p in pieces if p.kind == "compiled"]
    unique = sum(p.shared_with is None for p in compiled)
    splitting = sum(p.kind == "splitting" for p in pieces)
    idle = sum(p.kind != "splitting" and p.computing == 0 for p in pieces)
    without = f"; {idle} without compute" if idle else ""
    return (
        f"{counted(len(compiled), 'compiled piece')}, {unique} of them unique; {splitting} splitting{without}"
    )


def crossing(values: list[Crossing] | None) -> str:
    """What crosses a border, by name and shape; the model's own parameters and buffers are counted."""
    own = [v for v in values or () if _OF_THE_MODEL.search(v.name)]
    others = [v for v in values or () if v not in own]
    said = [f"{v.name}[{','.join(v.shape)}]" if v.shape else f"{v.name}:{v.type}" for v in others]
    if own:
        said.append(f"and {counted(len(own), 'parameter')}" if said else counted(len(own), "parameter"))
    return " ".join(said)
