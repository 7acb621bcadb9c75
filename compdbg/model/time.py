"""Where the time went: the phases that torch measures, as a tree, and what no phase accounts for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec import Struct

from compdbg.events import Header, ProcessEnd, ProcessStart, Span, SpanBegin
from compdbg.model.shared import word
from compdbg.store.reader import Log

IMPORT = "import torch"


class Phase(Struct, frozen=True, kw_only=True, gc=False):
    """One phase of one process. `start_s` counts from the process's start; still open if `open`."""

    span: str
    parent: str | None
    process: str
    rank: int | None
    start_s: float
    duration_s: float
    self_s: float
    compile_id: str | None
    category: str
    open: bool
    depth: int
    event: str
    parent_event: str | None


class _Node(Struct, frozen=True, gc=False):
    """What is kept of the events of a phase: there may be hundreds of thousands."""

    seq: int
    rank: int | None
    span: str
    compile_id: str | None
    category: str
    start: float
    duration: float
    parent: int | None
    open: bool


class ProcessTime(Struct, frozen=True, kw_only=True):
    """One process: how long it ran, and how much of that it compiled."""

    process: str
    rank: int | None
    wall_s: float
    compile_s: float
    import_s: float | None
    unaccounted_s: float
    """Of the compile time: in a phase that has parts, and in none of its parts."""


class Times:
    """Phases by process, in the order in which they began; a parent before its children."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @cached_property
    def phases(self) -> list[Phase]:
        return [
            phase
            for process, nodes in self._nodes().items()
            for phase in _tree(process, nodes, self._starts[process])
        ]

    @cached_property
    def processes(self) -> list[ProcessTime]:
        by_process: dict[str, list[Phase]] = defaultdict(list)
        for phase in self.phases:
            by_process[phase.process].append(phase)
        return [self._process(process, phases) for process, phases in by_process.items()]

    @cached_property
    def compile_s(self) -> float:
        """Of the process that compiled longest: ranks compile side by side."""
        return max((p.compile_s for p in self.processes), default=0.0)

    def compiling(self, process: str) -> list[Phase]:
        """The process's phases but its import, and but those on threads that another phase waits for."""
        phases = [p for p in self.phases if p.process == process and p.span != IMPORT]
        outermost = [p for p in phases if p.depth == 0]
        beside = {p.event for p in outermost if p.compile_id is None and _is_within(p, outermost)}
        kept: list[Phase] = []
        skipping = False
        for phase in phases:
            skipping = phase.event in beside if phase.depth == 0 else skipping
            if not skipping:
                kept.append(phase)
        return kept

    def _process(self, process: str, phases: Sequence[Phase]) -> ProcessTime:
        compiling = self.compiling(process)
        outermost = [(p.start_s, p.start_s + p.duration_s) for p in compiling if p.depth == 0]
        containers = {(p.process, p.parent_event) for p in compiling}
        return ProcessTime(
            process=process,
            rank=phases[0].rank,
            wall_s=self._ends[process] - self._starts[process],
            compile_s=_covered(outermost),
            import_s=next((p.duration_s for p in phases if p.span == IMPORT), None),
            unaccounted_s=sum(p.self_s for p in compiling if (p.process, p.event) in containers),
        )

    @cached_property
    def _starts(self) -> dict[str, float]:
        starts = {h.process: h.time for h, _ in self._log.of(ProcessStart)}
        return {process: first for process, (first, _) in self._log.ends.items()} | starts

    @cached_property
    def _ends(self) -> dict[str, float]:
        ends = {process: last for process, (_, last) in self._log.ends.items()}
        return ends | {h.process: h.time for h, _ in self._log.of(ProcessEnd)}

    def _nodes(self) -> dict[str, dict[int, _Node]]:
        """By process and the `seq` that children name as their parent."""
        found: dict[str, dict[int, _Node]] = defaultdict(dict)
        begun: dict[str, set[int]] = defaultdict(set)
        for header, _ in self._log.of(SpanBegin):
            begun[header.process].add(header.seq)
        for header, event in self._log.of(SpanBegin):
            lasted = max(0.0, self._ends[header.process] - header.time)
            parent = self._enclosing(header, begun[header.process])
            found[word(header.process)][header.seq] = _node(header, event, header.time, lasted, parent)
        for header, span in self._log.of(Span):
            key = header.seq if span.begin is None else span.begin
            start = header.time - span.duration_s
            parent = self._enclosing(header, begun[header.process])
            found[word(header.process)][key] = _node(header, span, start, span.duration_s, parent)
        return found

    def _enclosing(self, header: Header, begun: set[int]) -> int | None:
        """The phase around an event, past parents that are no phase (a frame, a pass).

        A parent is written before its children; one that is not is damage, and would lead in a circle.
        """
        below, parent = header.seq, header.parent
        while parent is not None and parent < below and parent not in begun:
            above = self._log.by_id.get(f"{header.process}:{parent}")
            below, parent = parent, above.header.parent if above is not None else None
        return parent if parent is not None and parent < below else None


def _node(
    header: Header, event: Span | SpanBegin, start: float, duration: float, parent: int | None
) -> _Node:
    return _Node(
        header.seq,
        header.rank,
        word(event.name),
        word(event.compile_id),
        word(event.category),
        start,
        duration,
        parent,
        isinstance(event, SpanBegin),
    )


def _is_within(phase: Phase, others: Sequence[Phase]) -> bool:
    end = phase.start_s + phase.duration_s
    return any(
        o is not phase and o.start_s <= phase.start_s and end <= o.start_s + o.duration_s for o in others
    )


def _covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Seconds in at least one of the intervals: phases on other threads run beside each other."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _tree(process: str, nodes: dict[int, _Node], began: float) -> Iterable[Phase]:
    children: dict[int | None, list[int]] = defaultdict(list)
    for key, node in nodes.items():
        children[node.parent if node.parent in nodes else None].append(key)
    waiting: list[tuple[int, Phase | None]] = [
        (key, None) for key in sorted(children[None], key=lambda k: -nodes[k].start)
    ]
    while waiting:
        key, parent = waiting.pop()
        node = nodes[key]
        below = sorted(children.get(key, ()), key=lambda k: nodes[k].start)
        inside = sum(nodes[k].duration for k in below)
        phase = Phase(
            span=node.span,
            parent=parent.span if parent is not None else None,
            process=process,
            rank=node.rank,
            start_s=round(node.start - began, 6),
            duration_s=round(node.duration, 6),
            self_s=round(max(0.0, node.duration - inside), 6),
            compile_id=node.compile_id,
            category=node.category,
            open=node.open,
            depth=parent.depth + 1 if parent is not None else 0,
            event=f"{process}:{node.seq}",
            parent_event=parent.event if parent is not None else None,
        )
        yield phase
        waiting += [(k, phase) for k in reversed(below)]
