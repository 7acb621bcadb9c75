"""What a pass did to the graph's writes: one lost, or one that now overwrites too early.

A write is lost when its op is there less often than before, nothing new writes to the same
memory, and somebody can tell: an input keeps its old value, or a reader of the new value reads
the old one. Dead code, fusion into another writing op, reinplacing and decomposition are none.

A copy is lost when a node that wants the value from before a write runs after it, on the same memory.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import CloneRemoved, EffectRemoved, Where
from compdbg.hooks import artifacts
from compdbg.hooks.aliases import readers, root
from compdbg.hooks.current import compile_id
from compdbg.hooks.effects import COPY, Effect, effects_of, is_input
from compdbg.hooks.userline import of_node

_METADATA_OPS = ("aten.sym_size", "aten.sym_stride", "aten.sym_numel", "aten.sym_storage_offset")
MAX_REPORTED = 20


class Late(NamedTuple):
    """A write in place, what it was before the pass, and the nodes behind it that want the old value."""

    write: Effect
    was: Effect | None
    readers: list[Any]


class Place(NamedTuple):
    """The pass in which something happened, and the graph it worked on."""

    pass_name: str
    graph: str
    custom: bool
    subsystem: str


def compare(before: list[Effect], graph: Any, place: Place, told: set[str]) -> None:
    """Report each write that the pass lost, and each that overwrites what is still read.

    `told` are the nodes that a pass inside this one was reported for; this one's are added.
    """
    if place.subsystem == "pre_grad_passes" and not place.custom:
        return
    after = effects_of(graph)
    for effect in list(lost_writes(before, after, graph, custom=place.custom))[:MAX_REPORTED]:
        if effect.node.name not in told:
            told.add(effect.node.name)
            _report_lost(effect, place)
    for late in list(late_readers(before, after, graph))[:MAX_REPORTED]:
        if late.write.node.name not in told:
            told.add(late.write.node.name)
            _report_late(late, place)


def _report_lost(effect: Effect, place: Place) -> None:
    event = EffectRemoved(
        pass_name=place.pass_name,
        graph=place.graph,
        op=effect.op,
        node=effect.node.name,
        where=_where(effect),
        compile_id=compile_id(),
    )
    probe.emit(event)
    artifacts.note(event)


def _report_late(late: Late, place: Place) -> None:
    event = CloneRemoved(
        pass_name=place.pass_name,
        graph=place.graph,
        op=late.write.op,
        base=late.write.origin.name,
        readers=[reader.name for reader in late.readers],
        where=_where(late.write) or (_where(late.was) if late.was is not None else None),
        compile_id=compile_id(),
        read_at=next((w for reader in late.readers if (w := of_node(reader))), None),
    )
    probe.emit(event)
    artifacts.note(event)


def _where(effect: Effect) -> Where | None:
    found = of_node(effect.node)
    if found is not None or effect.op != COPY:
        return found
    return next((w for source in effect.node.all_input_nodes if (w := of_node(source))), None)


def lost_writes(before: list[Effect], after: list[Effect], graph: Any, *, custom: bool) -> Iterable[Effect]:
    """The writes of `before` that are gone from the graph and are missed, one a node."""
    candidates = [e for e in _gone(before, after, graph) if custom or e.base is not None]
    if not candidates:
        return
    known = {(e.node, e.argument, e.in_place) for e in before}
    fresh = [e for e in after if (e.node, e.argument, e.in_place) not in known]
    lost = [e for e in candidates if _is_missed(e, fresh, graph)]
    ops_on = {e.origin for e in lost if e.op != COPY}
    reported: set[Any] = set()
    for effect in lost:
        follows = effect.op == COPY and effect.origin in ops_on
        if effect.node not in reported and not follows:
            reported.add(effect.node)
            yield effect


def _gone(before: list[Effect], after: list[Effect], graph: Any) -> list[Effect]:
    """Live writes of ops that are there less often than before."""
    alive = {e.node: e.op for e in before if e.alive}
    remaining = {e.node: e.op for e in after if e.alive}
    were, are = Counter(alive.values()), Counter(remaining.values())
    if any(were[op] > are[op] for op in were):
        are.update(_ops_in_subgraphs(graph))
    short = {op for op in were if were[op] > are[op]}
    return [e for e in before if e.alive and e.op in short and e.node not in remaining]


def _ops_in_subgraphs(graph: Any) -> Iterable[str]:
    owner = graph.owning_module
    for child in owner.modules() if owner is not None else ():
        if child is not owner and hasattr(getattr(child, "graph", None), "nodes"):
            yield from {e.node: e.op for e in effects_of(child.graph)}.values()


def _is_missed(effect: Effect, fresh: list[Effect], graph: Any) -> bool:
    if effect.base is None:
        return not fresh
    if any(e.origin is effect.origin for e in fresh):
        return False
    remaining = set(graph.nodes)
    if effect.in_place:
        if is_input(effect.origin):
            return True
        return effect.origin in remaining and _reads_directly(effect, remaining)
    if _reads_directly(effect, remaining):
        return True
    return is_input(effect.origin) and bool(effect.back) and not effect.back & remaining


def _reads_directly(effect: Effect, remaining: set[Any]) -> bool:
    """Whether a reader of the written value now reads the memory's unwritten one."""
    if effect.base not in remaining:
        return False
    return any(reader in effect.new and reader in remaining for reader in readers(root(effect.base)))


def late_readers(before: list[Effect], after: list[Effect], graph: Any) -> Iterable[Late]:
    """Writes in place, each with the nodes behind it that want what they overwrite."""
    wanted = _old_readers(before, after)
    if not any(old for _, old in wanted.values()):
        return
    order = {node: at for at, node in enumerate(graph.nodes)}
    for effect in after:
        was, old = wanted.get((effect.node, effect.argument), (None, frozenset()))
        if not old or not effect.in_place:
            continue
        start = root(effect.base)
        late = [
            reader
            for reader in sorted(old.intersection(readers(start)), key=order.__getitem__)
            if order[reader] > order[effect.node] and _wants_memory(reader, effect, start)
        ]
        if late:
            yield Late(effect, was, late)


def _old_readers(
    before: list[Effect], after: list[Effect]
) -> dict[tuple[Any, str], tuple[Effect | None, frozenset[Any]]]:
    """For each write in place after the pass: what it was, and who wanted the value from before it.

    Writes are paired by node, else by op and memory in their order; one that has no partner
    took the place of all that are gone from its memory.
    """
    by_key = {(e.node, e.argument): e for e in before}
    kept = {(e.node, e.argument) for e in after}
    waiting = [e for e in before if (e.node, e.argument) not in kept]
    found: dict[tuple[Any, str], tuple[Effect | None, frozenset[Any]]] = {}
    for effect in after:
        if not effect.in_place or effect.base is None:
            continue
        key = (effect.node, effect.argument)
        partner = by_key.get(key) or _take(waiting, effect)
        if partner is not None:
            found[key] = (partner, partner.old)
        elif effect.op != COPY:
            gone = [e for e in waiting if e.origin is effect.origin]
            found[key] = (gone[0] if gone else None, frozenset().union(*(e.old for e in gone)))
    return found


def _take(waiting: list[Effect], effect: Effect) -> Effect | None:
    for at, candidate in enumerate(waiting):
        if candidate.op == effect.op and candidate.origin is effect.origin:
            return waiting.pop(at)
    return None


def _wants_memory(reader: Any, effect: Effect, start: Any) -> bool:
    """Whether the reader really reads what is overwritten: its values, in the same place."""
    if reader is effect.node or str(reader.target).startswith(_METADATA_OPS):
        return False
    if reader.op == "output" and is_input(start):
        return False
    arguments = [node for node in reader.all_input_nodes if root(node) is start]
    return any(_overlap(node, effect.base) for node in arguments)


def _overlap(one: Any, other: Any) -> bool:
    """Whether two tensors share memory, as far as torch can tell; where it can't, they do."""
    a, b = one.meta.get("val"), other.meta.get("val")
    guards = sys.modules.get("torch._C._dynamo.guards")
    if a is None or b is None or guards is None:
        return True
    try:
        return bool(guards.compute_overlapping_tensors([a, b]))
    except Exception:
        return True
