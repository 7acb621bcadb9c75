"""The last known state of each graph that is being compiled: what a pass is compared with.

A graph is printed once a state, not once a pass: what was after one pass is before the next. While
several passes over a graph follow each other, its nodes' own argument tuples are kept, and a graph
whose tuples are the very same objects is known to be unchanged without being hashed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.hooks.graphtext import fingerprint, graph_text, op_counts


class Snapshot(NamedTuple):
    """A graph at one moment: its fingerprint, its text as a payload, its ops."""

    fingerprint: int
    text: str
    ops: dict[str, int]


_last: weakref.WeakKeyDictionary[Any, Snapshot] = weakref.WeakKeyDictionary()
_stored_by: probe.Sink | None = None
_here = threading.local()


def last_known(graph: Any) -> Snapshot | None:
    """What the graph was when somebody last looked; None for one never seen in this recording."""
    global _stored_by
    if _stored_by is not probe.sink():
        _last.clear()
        _stored_by = probe.sink()
    return _last.get(graph)


def snapshot(graph: Any) -> Snapshot:
    """The graph as it is now, printed only if it is not as it was when last looked at."""
    kept: dict[int, tuple[list[Any], Snapshot]] | None = getattr(_here, "kept", None)
    known = last_known(graph)
    if kept is None:
        return _look(graph, known)
    parts = _parts(graph)
    before = kept.get(id(graph))
    if before is not None and before[1] is known and _same(before[0], parts):
        return known
    now = _look(graph, known)
    kept[id(graph)] = (parts, now)
    return now


@contextmanager
def keeping_parts() -> Iterator[None]:
    """Inside, graphs' nodes are held; outside, nothing of a graph is kept alive."""
    outer = getattr(_here, "kept", None)
    if outer is None:
        _here.kept = {}
    try:
        yield
    finally:
        _here.kept = outer


def _look(graph: Any, known: Snapshot | None) -> Snapshot:
    now = fingerprint(graph)
    if known is not None and known.fingerprint == now:
        return known
    made = Snapshot(now, probe.payload(graph_text(graph)), op_counts(graph))
    _last[graph] = made
    return made


def _parts(graph: Any) -> list[Any]:
    """What makes up the graph, as objects that are never changed but only replaced."""
    parts: list[Any] = []
    add = parts.extend
    for node in graph.nodes:
        add((node, node.target, node.args, node.kwargs))
    return parts


def _same(before: list[Any], now: list[Any]) -> bool:
    """Whether they are the same objects; comparing symbolic sizes by value would add guards."""
    return len(before) == len(now) and all(map(is_, before, now))


def op_delta(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """`{"aten.mm.default": -1, "aten.addmm.default": 1}`: ops that came and went."""
    ops = [*before, *(op for op in after if op not in before)]
    changes = {op: after.get(op, 0) - before.get(op, 0) for op in ops}
    return {op: change for op, change in changes.items() if change}
