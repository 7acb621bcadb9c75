"""The split beyond its pieces: names that matched nothing, and pieces that are nearly equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from compdbg.events import Piece, SplitOpUnmatched
from compdbg.model.pipeline import Crossing, SplitPiece
from compdbg.store.reader import Log


class UnmatchedOp(Struct, frozen=True, kw_only=True):
    """A name of `splitting_ops` that no graph of the run has. `matched`: other names in the list."""

    name: str
    nearest: str | None
    exists: bool
    matched: list[str]
    graphs: list[str]
    events: list[str]


class NearTwins(Struct, frozen=True, kw_only=True):
    """Pieces of one split that are equal but for constants: the first, and one of each other value."""

    graph: str
    first: SplitPiece
    others: list[SplitPiece]
    members: int
    """All of them, twins that share a compile with one of these included."""

    @property
    def events(self) -> list[str]:
        return [self.first.event, *(piece.event for piece in self.others)]


class BadCrossing(Struct, frozen=True, kw_only=True):
    """A value that one piece gives and others take, which is neither a tensor nor a size of the batch.

    `what`: `size` (a `torch.Size`), `tuple`, `unbacked` or, of anything else, its type.
    """

    graph: str
    piece: str
    value: Crossing
    what: str
    taken_by: list[str]
    splitter: str | None
    site: str
    event: str


_FIT = (
    "Tensor", "Parameter", "FakeTensor", "SymInt", "SymFloat", "SymBool", "int", "float", "bool", "NoneType",
    "unknown",
)  # fmt: skip


def build_bad_crossings(pieces: Sequence[SplitPiece]) -> list[BadCrossing]:
    splits: dict[tuple[str, str], list[SplitPiece]] = defaultdict(list)
    for piece in pieces:
        splits[piece.process, piece.graph].append(piece)
    found: dict[tuple[str, str], BadCrossing] = {}
    for split in splits.values():
        for crossing in _bad_crossings(split):
            found.setdefault((split[0].site, crossing.value.name), crossing)
    return list(found.values())


def _bad_crossings(split: list[SplitPiece]) -> Iterator[BadCrossing]:
    """Symbols that come in with the graph's own inputs are sizes like any other."""
    made = {out.name for piece in split for out in piece.outputs or []}
    given = (value for piece in split for value in piece.inputs or [] if value.name not in made)
    known = {symbol for value in given for symbol in value.unbacked}
    for piece in split:
        for value in piece.outputs or []:
            what = _what(value, known)
            takers = [
                p.piece for p in split if p is not piece and any(v.name == value.name for v in p.inputs or [])
            ]
            if what and takers:
                yield BadCrossing(
                    graph=piece.graph,
                    piece=piece.piece,
                    value=value,
                    what=what,
                    taken_by=takers,
                    splitter=piece.splitter,
                    site=piece.site,
                    event=piece.event,
                )


def _what(value: Crossing, known: Collection[str]) -> str:
    if value.type in ("Size", "tuple", "list"):
        return "size" if value.type == "Size" else "tuple"
    if any(symbol not in known for symbol in value.unbacked):
        return "unbacked"
    return "" if value.type in _FIT else value.type


def build_unmatched(log: Log) -> list[UnmatchedOp]:
    """A name counts as matched where any graph of the run is split at it."""
    used = {name for _, piece in log.of(Piece) if piece.split_op for name in piece.split_op.split(", ")}
    found: dict[str, list[tuple[str, SplitOpUnmatched]]] = defaultdict(list)
    for header, event in log.of(SplitOpUnmatched):
        if event.name not in used:
            found[event.name].append((header.id, event))
    return [
        UnmatchedOp(
            name=name,
            nearest=next((e.nearest for _, e in events if e.nearest), None),
            exists=any(e.exists for _, e in events),
            matched=sorted({other for _, e in events for other in e.matched}),
            graphs=list(dict.fromkeys(e.graph for _, e in events)),
            events=[event_id for event_id, _ in events],
        )
        for name, events in found.items()
    ]


def build_near_twins(pieces: Sequence[SplitPiece]) -> list[NearTwins]:
    """Only pieces that give the same kind of values: else a constant is a size, and no accident."""
    by_name = {(p.process, p.graph, p.piece): p for p in pieces}
    groups: dict[tuple[str, str], dict[str, SplitPiece]] = defaultdict(dict)
    first: dict[tuple[str, str], SplitPiece] = {}
    for piece in pieces:
        root = by_name.get((piece.process, piece.graph, piece.related_to or ""))
        if root is None or piece.shared_with or _gives(piece) != _gives(root):
            continue
        key = (piece.site, root.piece)
        first.setdefault(key, root)
        groups[key].setdefault(piece.piece, piece)
    return [_near_twins(first[key], list(others.values()), pieces) for key, others in groups.items()]


def _near_twins(first: SplitPiece, others: list[SplitPiece], pieces: Sequence[SplitPiece]) -> NearTwins:
    names = {first.piece, *(p.piece for p in others)}
    shared = {p.piece for p in pieces if p.graph == first.graph and p.shared_with in names}
    return NearTwins(graph=first.graph, first=first, others=others, members=len(names | shared))


def _gives(piece: SplitPiece) -> list[tuple[str, object, str | None]]:
    return [(out.type, out.shape, out.dtype) for out in piece.outputs or []]
