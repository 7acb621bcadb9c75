"""The pipeline of a serving engine as recorded: pieces of the split, configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct

from compdbg.events import (
    Apart,
    Boundary,
    ConfigValue,
    Piece,
    PieceCompiled,
    Where,
)
from compdbg.model.operators import computes
from compdbg.store.reader import Log


class Crossing(Struct, frozen=True, kw_only=True):
    """A value that crosses a border of a piece; what is no tensor has neither shape nor dtype."""

    name: str
    type: str
    shape: list[str] | None
    dtype: str | None
    unbacked: list[str]
    """Symbols whose value comes out of data."""
    where: Where | None


class SplitPiece(Struct, frozen=True, kw_only=True):
    """One piece of a split graph. `shared_with` is the first compiled piece that is equal to it.

    Of a `loaded` piece (from a cache, with its artifact) vLLM knows only the name, the twin and the
    ranges: what it holds and what crosses its borders is None then.
    """

    graph: str
    piece: str
    kind: str
    ops: int | None
    split_op: str | None
    shared_with: str | None
    inputs: list[Crossing] | None
    outputs: list[Crossing] | None
    differs_by: str | None
    loaded: bool
    compiles: list[str]
    """Ranges and sizes that the piece was compiled or loaded for; `0` is a piece that no size matters to."""
    options: dict[str, dict[str, str]] = {}
    """Of these, by range, what Inductor was told for them, where that was recorded."""
    event: str
    related_to: str | None
    """The first piece that this one would be a twin of, but for the constants in `apart`."""
    apart: list[Apart]
    op_counts: dict[str, int]
    has_counts: bool = True
    """Whether `op_counts` is what the piece holds: an older run, or a piece from a cache, has none."""
    splitter: str | None
    """What split the graph, where it was neither the built-in compiler nor vLLM."""
    compile_ms: float
    process: str

    @property
    def site(self) -> str:
        """The graph, or where Dynamo compiled the same code again for other sizes, all of these."""
        return self.graph.partition("/")[0] if self.splitter else self.graph

    @property
    def computing(self) -> int | None:
        """How many of its operators compute something; None where they are not known."""
        if not self.has_counts:
            return None
        return sum(count for name, count in self.op_counts.items() if computes(name))


class Setting(Struct, frozen=True, kw_only=True):
    """A configuration value: asked for (None: left open), in effect, and who made the difference.

    `asked`: by the user, at `where` if that is known, and not by a default.
    """

    key: str
    requested: str | None
    effective: str
    changed_by: str
    why: str
    asked: bool
    where: Where | None
    event: str


def is_tuned(options: Mapping[str, str]) -> bool:
    """Whether Inductor chose kernels by timing them."""
    return "true" in (options.get("max_autotune"), options.get("coordinate_descent_tuning"))


def build_pieces(log: Log) -> list[SplitPiece]:
    compiles: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    options: dict[tuple[str, str, str], dict[str, dict[str, str]]] = defaultdict(dict)
    spent: dict[tuple[str, str, str], float] = defaultdict(float)
    for header, event in log.of(PieceCompiled):
        compiles[header.process, event.graph, event.piece].append(event.range)
        if event.options is not None:
            options[header.process, event.graph, event.piece][event.range] = event.options
        spent[header.process, event.graph, event.piece] += 0.0 if event.reused else event.duration_ms
    return [
        SplitPiece(
            graph=piece.graph,
            piece=piece.piece,
            kind=piece.piece_kind,
            ops=piece.ops,
            split_op=piece.split_op,
            shared_with=piece.shared_with,
            inputs=_crossings(piece.inputs) if piece.inputs or not piece.loaded else None,
            outputs=_crossings(piece.outputs) if piece.outputs or not piece.loaded else None,
            differs_by=piece.differs_by,
            loaded=piece.loaded,
            compiles=compiles.get((header.process, piece.graph, piece.piece), []),
            options=options.get((header.process, piece.graph, piece.piece), {}),
            event=header.id,
            related_to=piece.related_to,
            apart=piece.apart,
            op_counts=piece.op_counts or {},
            has_counts=bool(piece.op_counts) or (piece.op_counts is not None and not piece.loaded),
            splitter=piece.splitter or None,
            compile_ms=spent.get((header.process, piece.graph, piece.piece), 0.0),
            process=header.process,
        )
        for header, piece in log.of(Piece)
    ]


def _crossings(values: list[Boundary]) -> list[Crossing]:
    return [
        Crossing(
            name=v.name,
            type=v.type,
            shape=v.shape if v.type == "Tensor" else None,
            dtype=v.dtype or None,
            unbacked=v.unbacked,
            where=v.where,
        )
        for v in values
    ]


def build_settings(log: Log) -> list[Setting]:
    """The last word on each key of each process, once where processes agree.

    torch's settings are looked at in each compile, and may be in effect in one and not in another.
    """
    last = {
        (header.process, event.key, event.changed_by if event.key.startswith("torch.") else ""): (
            header,
            event,
        )
        for header, event in log.of(ConfigValue)
    }
    found: dict[tuple[str, str, str], Setting] = {}
    for header, event in last.values():
        found[event.key, event.requested, event.effective] = Setting(
            key=event.key,
            requested=event.requested or None,
            effective=event.effective,
            changed_by=event.changed_by,
            why=event.why,
            asked=event.asked,
            where=event.where,
            event=header.id,
        )
    return sorted(found.values(), key=lambda s: s.key)
