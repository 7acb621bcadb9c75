"""Pieces: the split as a chain, what crosses each border, and which twins share one compile."""

from __future__ import annotations

from compdbg.events import Piece, PieceCompiled
from compdbg.model.pipeline import Crossing, SplitPiece
from compdbg.views.base import Column, Source, View
from compdbg.views.explorer.base import Block, Code, CodeLine, Page, Place
from compdbg.views.explorer.words import facts, listing
from compdbg.views.places import counted, duration
from compdbg.views.splits import compiled_for, range_said, splits

_KINDS = {"compiled": "■", "splitting": "○", "inlined": "·"}
MAX_LINES = 400


def pieces_view(source: Source) -> View:
    told = splits(source)
    return View(
        name="pieces",
        title=told.title,
        items=source.run.pieces,
        columns=(
            Column("piece", lambda p: f"{_KINDS.get(p.kind, '?')} {p.piece}", role=_role),
            Column("kind", lambda p: p.kind),
            Column("ops", lambda p: "" if p.ops is None else str(p.ops), align="right"),
            Column("twin of", lambda p: f"= {p.shared_with}" if p.shared_with else "", role=lambda p: "dim"),
            Column("split at", lambda p: p.split_op or ""),
            Column("compiled for", compiled_for),
            Column("into the next", lambda p: crossing(p.outputs), wide=True),
            Column("graph", lambda p: p.graph),
        ),
        lines=told.lines,
        empty="No graph was split: the program used no engine that splits, or nothing was compiled.",
    )


def _role(piece: SplitPiece) -> str:
    return "dim" if piece.shared_with else "good" if piece.kind == "compiled" else ""


def crossing(values: list[Crossing] | None) -> str:
    """What crosses a border: `→ x[s0,64] y[64]`."""
    if not values:
        return ""
    return "→ " + " ".join(
        f"{v.name}[{','.join(v.shape)}]" if v.shape else f"{v.name}:{v.type}" for v in values
    )


def piece_page(source: Source, piece: SplitPiece) -> Page:
    chain = [p for p in source.run.pieces if p.graph == piece.graph]
    twins = [p.piece for p in chain if p.shared_with == (piece.shared_with or piece.piece)]
    blocks: list[Block] = [
        *facts(
            ("", f"{piece.piece}, a {piece.kind} piece of {piece.graph}", "title"),
            ("split at", piece.split_op),
            ("twin", f"runs what was compiled for {piece.shared_with}" if piece.shared_with else None),
            (
                "twins",
                f"{counted(len(twins), 'piece')} share one compile: {' '.join(twins[:12])}"
                if twins
                else None,
            ),
            ("no twin", piece.differs_by, "warn"),
            ("loaded", "from a cache: what it holds was not observed in this run" if piece.loaded else None),
        ),
        *_borders(piece),
        Code(list(_chain(chain, piece)), title="the chain", language="text"),
        *_compiles(source, piece),
        *_text(source, piece),
    ]
    return Page(title=f"piece {piece.piece} of {piece.graph}", blocks=blocks)


def _borders(piece: SplitPiece) -> list[Block]:
    return [
        listing(title, [f"{v.name}: {v.type}{_shape(v)}" for v in values])
        for title, values in (("in", piece.inputs), ("out", piece.outputs))
        if values
    ]


def _shape(value: Crossing) -> str:
    return f"[{', '.join(value.shape)}] {value.dtype or ''}".rstrip() if value.shape is not None else ""


def _chain(chain: list[SplitPiece], own: SplitPiece) -> list[CodeLine]:
    """The pieces about this one, in their order, with what crosses between them."""
    at = chain.index(own)
    lines = []
    for piece in chain[max(0, at - 3) : at + 4]:
        twin = f"  (= {piece.shared_with})" if piece.shared_with else ""
        op = f"  {piece.split_op}" if piece.split_op else ""
        text = f"{_KINDS.get(piece.kind, '?')} {piece.piece}{op}{twin}"
        lines.append(CodeLine(text, ">" if piece.event == own.event else ""))
        if piece.outputs:
            lines.append(CodeLine(f"│   {crossing(piece.outputs)[2:]}"))
    return lines


def _compiles(source: Source, piece: SplitPiece) -> list[Block]:
    name = piece.piece if piece.compiles else piece.shared_with
    found = [
        f"{range_said(e.range, e.options or {})}: {_came(e)} in {duration(e.duration_ms / 1e3)}"
        for _, e in source.run.log.of(PieceCompiled)
        if (e.graph, e.piece) == (piece.graph, name)
    ]
    of = "" if name == piece.piece else f", as {name}"
    return [listing(f"compiled for{of}", found)] if found else []


def _came(event: PieceCompiled) -> str:
    by = f" by {event.backend}" if event.backend else ""
    return "reused" if event.reused else f"compiled{by}"


def _text(source: Source, piece: SplitPiece) -> list[Block]:
    record = source.run.log.by_id.get(piece.event)
    digest = record.event.text if record is not None and isinstance(record.event, Piece) else None
    text = source.run.log.text(digest)
    if text is None:
        return []
    return [Code([CodeLine(line) for line in text.splitlines()[:MAX_LINES]], title="its graph")]


PIECES = Place(
    name="pieces",
    letter="p",
    title="Pieces",
    view=pieces_view,
    page=piece_page,
    key=lambda p: p.event,
    row=SplitPiece,
    about=lambda r, finding: r.event in finding.evidence,
)
