"""`split-empty-piece`: a piece with nothing to compute in it, or only an allocation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import counted, listed
from compdbg.model.operators import allocates, short
from compdbg.model.pipeline import SplitPiece
from compdbg.model.run import Run


def split_empty_piece(run: Run) -> Iterator[Finding]:
    empty: dict[str, dict[str, SplitPiece]] = defaultdict(dict)
    for piece in run.pieces:
        if piece.kind != "splitting" and piece.computing == 0:
            empty[piece.site].setdefault(piece.piece, piece)
    for pieces in empty.values():
        found = list(pieces.values())
        yield _finding(found[0].graph, found)


def _finding(graph: str, pieces: list[SplitPiece]) -> Finding:
    names = [piece.piece for piece in pieces]
    inlined = all(piece.kind == "inlined" for piece in pieces)
    ops = list(dict.fromkeys(short(name) for piece in pieces for name in piece.op_counts))
    alone = any(piece.op_counts and all(allocates(name) for name in piece.op_counts) for piece in pieces)
    return Finding(
        code="split-empty-piece",
        severity="info",
        title=(
            f"{counted(len(pieces), 'piece')} of {graph} {'has' if len(pieces) == 1 else 'have'} nothing "
            "to compute"
        ),
        cause=(
            f"{listed(names)} {'holds' if len(pieces) == 1 else 'hold'} "
            f"{listed(ops) if ops else 'no operator'} only: {_what(alone, ops)}. "
            + (
                "The built-in compiler runs it as it is, between the pieces."
                if inlined
                else "It is compiled, captured and called for nothing, and what it allocates is fresh on "
                "each call."
            )
        ),
        suggestion=(
            "Nothing: it costs a call. To be rid of it, allocate inside the operator or before the first "
            "piece."
            if inlined
            else "Put these nodes into the piece before or after; splitting operators in a row belong "
            "together."
        ),
        evidence=[piece.event for piece in pieces],
        cost=Cost(results="same"),
        data={"graph": graph, "pieces": names, "ops": ops, "allocation_only": alone, "inlined": inlined},
        subject=f"{graph} {' '.join(names)}",
    )


def _what(alone: bool, ops: list[str]) -> str:
    if not ops:
        return "values are passed through"
    return "an allocation without compute" if alone else "views, sizes and allocations"
