"""Sites: the anchors at which patterns were tried, and whether a pattern took them in the end."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set

import msgspec
from msgspec import Struct

from compdbg.events import MatchAttempt, NearMiss, Piece, Where
from compdbg.model.shared import Shared, word
from compdbg.store.reader import Log

_ARITHMETIC = re.compile(r"(add|sub|mul|div)(_\d+)?")
_NONE: frozenset[str] = frozenset()
_STAGES = {"first": 0, "second": 1, "check": 2, "discard": 3}


class Attempt(Struct, frozen=True, gc=False):
    """One attempt with its event id, its near miss as read with the whole run in view."""

    id: str
    event: MatchAttempt
    miss: NearMiss | None
    near: bool

    @property
    def progress(self) -> tuple[int, int, int]:
        """How far matching came: the stage, the nodes matched, and how few were lacking."""
        miss = self.miss
        if miss is None:
            return (-1, 0, 0)
        return (_STAGES.get(miss.stage, 0), miss.matched_nodes, miss.matched_nodes - miss.pattern_nodes)


class Site(Struct, frozen=True, gc=False):
    """An anchor of one graph, with what became of it under one pass.

    `state`: `taken` (a pattern of the pass fired here), `superseded` (another pass took it, or what
    is near belongs to a match, or to a nearer miss, elsewhere), `missed` (near, and nobody took it),
    `unlike` (nothing of a pattern is near).
    """

    process: str
    pass_id: str
    graph: str
    graph_id: int
    anchor: str
    state: str
    attempts: tuple[Attempt, ...]

    @property
    def nearest(self) -> Attempt:
        """Of the attempts that are near, or else of all, the one that came furthest; the first of equals."""
        near = [a for a in self.attempts if a.near] or list(self.attempts)
        return max(near, key=lambda a: a.progress)

    @property
    def matched_nodes(self) -> int:
        """How many nodes of a pattern the nearest attempt took."""
        miss = self.nearest.miss
        return miss.matched_nodes if miss else 0

    @property
    def where(self) -> Where | None:
        """The user's line at which matching stopped, or else of the anchor."""
        miss = self.nearest.miss
        return (miss.where if miss else None) or self.nearest.event.where


def build_sites(log: Log) -> list[Site]:
    """All sites of a run. Of several tries of a pattern at a site, the last one counts."""
    edges = _Edges(log)
    taken = _Taken(log)
    last: dict[tuple[str, str, int, str], dict[str, Attempt]] = defaultdict(dict)
    shared = Shared()
    for header, read in log.of(MatchAttempt):
        event = _lean(read, shared)
        if event.outcome != "matched" and event.miss is None:
            continue
        tries = last[word(header.process), event.pass_id, event.graph_id, event.anchor]
        known = tries.get(event.pattern)
        if known is None or known.event.outcome != "matched":
            miss = edges.read(event)
            near = event.is_near_without(taken.by_others(header.process, event.graph_id, event.pass_id))
            near = near or (miss is not None and miss.reason == "crosses-split")
            tries[event.pattern] = Attempt(header.id, event, miss, near)
    keys = list(last)  # each is let go of when its site is made: there may be hundreds of thousands
    return _without_echoes([_site(key, tuple(last.pop(key).values()), taken) for key in keys])


def _lean(event: MatchAttempt, shared: Shared) -> MatchAttempt:
    """The event, with what others say too shared with them: graphs of ranks and layers miss alike."""
    return msgspec.structs.replace(
        event,
        pass_id=word(event.pass_id),
        pass_name=word(event.pass_name),
        pattern=word(event.pattern),
        graph=word(event.graph),
        anchor=word(event.anchor),
        outcome=word(event.outcome),
        miss=shared.one(event.miss),
        where=shared.one(event.where),
        compile_id=word(event.compile_id),
    )


class _Taken:
    """The nodes that matches replaced, by process and graph.

    A match of one op alone, in another pass, is no fusion: it lowers what is left for it, and nothing
    was lost by that.
    """

    def __init__(self, log: Log) -> None:
        self._fused: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._alone: dict[tuple[str, int, str], set[str]] = defaultdict(set)
        self._both: dict[tuple[str, int, str], Set[str]] = {}
        for header, event in log.of(MatchAttempt):
            if event.outcome == "matched" and len(event.consumed) == 1:
                self._alone[header.process, event.graph_id, event.pass_id].add(event.anchor)
            elif event.outcome == "matched":
                self._fused[header.process, event.graph_id].update((*event.consumed, event.anchor))

    def by_others(self, process: str, graph_id: int, pass_id: str) -> Set[str]:
        """What is not there any more for a pattern of one pass that has failed."""
        fused = self._fused.get((process, graph_id), _NONE)
        key = (process, graph_id, pass_id)
        if key in self._alone and key not in self._both:
            self._both[key] = fused | self._alone[key]
        return self._both.get(key, fused)


def _site(key: tuple[str, str, int, str], attempts: tuple[Attempt, ...], taken: _Taken) -> Site:
    process, pass_id, graph_id, anchor = key
    if any(a.event.outcome == "matched" for a in attempts):
        state = "taken"
    elif any(a.near for a in attempts) and anchor not in taken.by_others(process, graph_id, pass_id):
        state = "missed"
    else:
        state = "superseded" if any(a.event.near for a in attempts) else "unlike"
    return Site(process, pass_id, attempts[0].event.graph, graph_id, anchor, state, attempts)


def _without_echoes(sites: list[Site]) -> list[Site]:
    """A miss of few nodes, beside ops that misses of more nodes have, is no site of its own.

    Of a norm that ends in two multiplications, both are anchors; only the last one can be the norm.
    """
    missed: dict[tuple[str, str, int], list[Site]] = defaultdict(list)
    for site in sites:
        if site.state == "missed":
            missed[site.process, site.pass_id, site.graph_id].append(site)
    echoes = {id(site) for group in missed.values() for site in _echoes_in(group)}
    return [msgspec.structs.replace(s, state="superseded") if id(s) in echoes else s for s in sites]


def _echoes_in(group: list[Site]) -> Iterator[Site]:
    """Walks from the misses of most nodes down, with the nodes that those of more have."""
    by_nodes: dict[int, list[Site]] = defaultdict(list)
    for site in group:
        by_nodes[max(site.matched_nodes, 1)].append(site)
    theirs: set[str] = set()
    for _, alike in sorted(by_nodes.items(), reverse=True):
        if theirs:
            yield from (site for site in alike if theirs.issuperset(_telling(site)))
        theirs.update(name for s in alike for name in (*s.nearest.event.near_nodes, s.anchor))


def _telling(site: Site) -> set[str]:
    """The near nodes that count; an addition beside an anchor of another kind is everywhere."""
    near = set(site.nearest.event.near_nodes)
    return near if site.matched_nodes > 1 else {n for n in near if not _ARITHMETIC.fullmatch(n)}


class _Edges:
    """Tells an op that lies beyond a split from one that is nowhere.

    In a piece, a graph input stands for a value that another piece computes; if that is what the
    pattern wants there, the split is what keeps the pattern from matching.
    """

    def __init__(self, log: Log) -> None:
        self.pieces = [event for _, event in log.of(Piece)]
        self.log = log

    def read(self, event: MatchAttempt) -> NearMiss | None:
        miss = event.miss
        if miss is None or miss.edge_index is None or miss.reason != "target-mismatch":
            return miss
        mine, op = self._piece_of(event.graph), op_word(miss.wanted)
        if mine is None or op is None or miss.edge_index >= len(mine.inputs):
            return miss
        value = mine.inputs[miss.edge_index].name
        others = (p for p in self.pieces if p.graph == mine.graph and p.piece != mine.piece)
        producer = next((p for p in others if value in {out.name for out in p.outputs}), None)
        if producer is None or not self._computes(producer, value, op):
            return miss
        detail = f"piece {producer.piece} computes it: the graph was split between the two"
        return msgspec.structs.replace(miss, reason="crosses-split", detail=detail)

    def _piece_of(self, graph: str) -> Piece | None:
        for piece in self.pieces:
            full = f"{piece.graph} {piece.piece}"
            if graph in (piece.piece, full) or graph.startswith(f"{full} "):
                return piece
        return None

    def _computes(self, piece: Piece, value: str, op: str) -> bool:
        """Whether the piece's code, or else its splitting op, says that `value` comes of `op`."""
        word = rf"\b{re.escape(op)}\b"
        text = self.log.text(piece.text)
        if text is None:
            return re.search(word, piece.split_op or "") is not None
        line = re.search(rf"^\s*{re.escape(value)}\b.*? = (?P<call>.*)$", text, re.MULTILINE)
        return line is not None and re.search(word, line["call"].partition("(")[0]) is not None


def op_word(wanted: str) -> str | None:
    """`rms` of `cases.rms.default`, `rms_norm` of `auto_functionalized(_C.rms_norm.default)`."""
    found = re.search(r"([\w.]+)\)?(?: among| with|$)", wanted)
    parts = found[1].split(".") if found else []
    return (parts[-2] if len(parts) > 2 else parts[-1]) if parts else None


def grouped_by_reason(sites: Iterable[Site]) -> dict[str, list[Site]]:
    """Missed sites by the reason of their nearest attempt."""
    groups: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        miss = site.nearest.miss
        if site.state == "missed" and miss is not None:
            groups[miss.reason].append(site)
    return groups
