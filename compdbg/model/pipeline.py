"""The pipeline of a serving engine as recorded: pieces of the split, sizes served, configuration."""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec import Struct

from compdbg.events import (
    Apart,
    Boundary,
    Capture,
    Compared,
    ConfigValue,
    Dispatch,
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
    """Ranges and sizes that the piece was compiled or loaded for."""
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


class ServedSize(Struct, frozen=True, kw_only=True):
    """How calls of one size were served. Times in milliseconds; `check` compares with eager.

    `warm_ups` of the `eager_calls` came before the capture, which needs them; `refused` found an
    input that had moved or a value that had changed since. `fault` is why a size has no capture.
    """

    graph: str
    size: int
    compiled_as: str | None
    padded_to: int | None
    captured: bool
    captures: int
    replays: int
    eager_calls: int
    capture_ms: float | None
    capture_bytes: int | None
    check: str
    max_abs: float | None
    max_rel: float | None
    warm_ups: int
    refused: int
    fault: str | None
    uncaptured: dict[str, int]
    """Why calls that were no warm-ups ran without a capture, with their number; see `Dispatch`."""
    why: str
    """Why rows can't be added, where they can't."""
    largest: int | None
    """The largest size that is to be captured."""
    events: list[str]


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


def build_pieces(log: Log) -> list[SplitPiece]:
    compiles: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    spent: dict[tuple[str, str, str], float] = defaultdict(float)
    for header, event in log.of(PieceCompiled):
        compiles[header.process, event.graph, event.piece].append(event.range)
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


def build_sizes(log: Log) -> list[ServedSize]:
    """One row a graph and size: the last tally of each process, added up; captures beside it."""
    last: dict[tuple[str, str, int], Dispatch] = {}
    events: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for header, event in log.of(Dispatch):
        last[header.process, event.graph, event.size] = event
        events[event.graph, event.size][header.process] = header.id
    captured: dict[tuple[str, int], list[Capture]] = defaultdict(list)
    for _, capture in log.of(Capture):
        if capture.size:
            captured[capture.graph, capture.size].append(capture)
    compared: dict[tuple[str, int], list[Compared]] = defaultdict(list)
    for _, comparison in log.of(Compared):
        if comparison.size is not None and comparison.check != "not-checked":
            compared[comparison.graph, comparison.size].append(comparison)
    called: dict[tuple[str, int], list[Dispatch]] = defaultdict(list)
    for dispatch in last.values():
        called[dispatch.graph, dispatch.size].append(dispatch)
    keys = sorted({*called, *captured}, key=lambda k: (k[0], k[1]))
    return [
        _size(*key, called[key], captured[key], compared[key], list(events.get(key, {}).values()))
        for key in keys
    ]


def _size(
    graph: str,
    size: int,
    calls: list[Dispatch],
    captures: list[Capture],
    compared: list[Compared],
    events: list[str],
) -> ServedSize:
    uncaptured: Counter[str] = Counter()
    for call in calls:
        uncaptured.update(call.uncaptured)
    done = [c for c in captures if c.error is None]
    padded_to = next((c.padded_to for c in calls if c.padded_to), None)
    elsewhere = padded_to not in (None, size)
    wrong = [c for c in compared if c.check == "differs"]
    measured = [c.bytes for c in done if c.bytes is not None]
    return ServedSize(
        graph=graph,
        size=size,
        compiled_as=next((c.compiled_as for c in calls if c.compiled_as), None),
        padded_to=padded_to,
        captured=bool(done) or any(c.captures or c.replays for c in calls),
        captures=len(done) if done or elsewhere else sum(c.captures for c in calls),
        replays=sum(c.replays for c in calls),
        eager_calls=sum(c.eager_calls for c in calls),
        capture_ms=sum(c.duration_ms for c in done) if done else None,
        capture_bytes=sum(measured) if measured else None,
        check="differs" if wrong else "equal" if compared else "not-checked",
        max_abs=max((c.max_abs for c in wrong if c.max_abs is not None), default=None),
        max_rel=max((c.max_rel for c in wrong if c.max_rel is not None), default=None),
        warm_ups=sum(c.warm_ups for c in calls),
        refused=sum(c.refused for c in calls),
        fault=next((c.fault or c.error for c in captures if c.error is not None), None),
        uncaptured=dict(uncaptured),
        why=next((c.why for c in calls if c.why), ""),
        largest=max((c.largest for c in calls if c.largest is not None), default=None),
        events=events,
    )


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
