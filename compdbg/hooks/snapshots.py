"""The last known state of each graph that is being compiled: what a pass is compared with.

A graph is printed once a state, not once a pass: what was after one pass is before the next.
"""

from __future__ import annotations

import weakref
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


def last_known(graph: Any) -> Snapshot | None:
    """What the graph was when somebody last looked; None for one never seen in this recording."""
    global _stored_by
    if _stored_by is not probe.sink():
        _last.clear()
        _stored_by = probe.sink()
    return _last.get(graph)


def snapshot(graph: Any) -> Snapshot:
    """The graph as it is now, printed only if it is not as it was when last looked at."""
    now = fingerprint(graph)
    known = last_known(graph)
    if known is not None and known.fingerprint == now:
        return known
    made = Snapshot(now, probe.payload(graph_text(graph)), op_counts(graph))
    _last[graph] = made
    return made


def op_delta(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """`{"aten.mm.default": -1, "aten.addmm.default": 1}`: ops that came and went."""
    ops = [*before, *(op for op in after if op not in before)]
    changes = {op: after.get(op, 0) - before.get(op, 0) for op in ops}
    return {op: change for op, change in changes.items() if change}
