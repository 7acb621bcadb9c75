"""One pass over one graph, as it runs: what was before it, and what it leaves behind.

What changes a graph between two observed passes (the first dead-code elimination,
`view_to_reshape`) becomes a row named `UNOBSERVED`, so that nothing is put down to the wrong pass.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compdbg import probe
from compdbg.events import PassRun, Where
from compdbg.hooks import artifacts, mutation
from compdbg.hooks.base import contained
from compdbg.hooks.current import compile_id, graph_name
from compdbg.hooks.effects import Effect, effects_of
from compdbg.hooks.snapshots import Snapshot, keeping_parts, last_known, op_delta, snapshot

NAME = "passes"
UNOBSERVED = "(between passes)"


class Running:
    """A pass that has begun. `ours` is the time that our own looking took inside it."""

    def __init__(self, graph: Any, name: str, within: Running | None) -> None:
        self.graph = graph
        self.name = name
        self.within = within
        self.subsystem = ""
        self.slot: str | None = None
        self.custom: bool = within.custom if within is not None else False
        self.where: Where | None = None
        self.disabled_by: str | None = None
        self.graph_name = graph_name()
        self.index = probe.next_pass(self.graph_name)
        self.before: Snapshot | None = None
        self.effects: list[Effect] = []
        self.told: set[str] = set()
        self.ours = 0.0
        self.started = 0.0


_here = threading.local()


def _stack() -> list[Running]:
    stack: list[Running] = _here.__dict__.setdefault("stack", [])
    return stack


@contextmanager
def observed(graph: Any, name: str, *, custom: bool = True, where: Where | None = None) -> Iterator[None]:
    """Record one pass over an `fx.Graph` that runs without torch's observer."""
    running = None
    if probe.active():
        with contained(NAME):
            running = begin(graph, name)
            running.custom, running.where = custom, where
    error: str | None = None
    try:
        yield
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"[:500]
        raise
    finally:
        if running is not None:
            with contained(NAME):
                end(running, error)


def begin(graph: Any, name: str) -> Running:
    """A pass begins: look at the graph before it."""
    started = time.perf_counter()
    stack = _stack()
    running = Running(graph, name, stack[-1] if stack else None)
    known = last_known(graph)
    running.before = snapshot(graph)
    if not stack and known is not None and known is not running.before:
        _record_unobserved(graph, known, running)
    running.effects = _effects(graph, running.before)
    stack.append(running)
    probe.set_pass_under_way(running.index)
    running.started = time.perf_counter()
    _charge(running.within, running.started - started)
    return running


def end(running: Running, error: str | None) -> None:
    """The pass has ended, or raised: record what it did."""
    ended = time.perf_counter()
    stack = _stack()
    while stack and stack.pop() is not running:
        pass
    probe.set_pass_under_way(stack[-1].index if stack else None)
    assert running.before is not None
    ran = running.disabled_by is None and error is None
    after = snapshot(running.graph) if ran else running.before
    _emit(running, after, ended - running.started - running.ours, error)
    running.effects = []
    _forget()
    _charge(running.within, time.perf_counter() - ended + running.ours)


@contextmanager
def same_graph() -> Iterator[None]:
    """Several passes over one graph follow: what was worked out for one is kept for the next."""
    _here.scopes = getattr(_here, "scopes", 0) + 1
    try:
        with keeping_parts():
            yield
    finally:
        _here.scopes -= 1
        _forget()


def _effects(graph: Any, now: Snapshot) -> list[Effect]:
    known: tuple[int, list[Effect]] | None = getattr(_here, "effects", None)
    if known is None or known[0] != now.fingerprint:
        known = _here.effects = (now.fingerprint, effects_of(graph))
    return known[1]


def _forget() -> None:
    """Let go of the graph's nodes when nobody is working on it any more."""
    if not getattr(_here, "scopes", 0) and not _stack():
        _here.effects = None


def _charge(outer: Running | None, seconds: float) -> None:
    if outer is not None:
        outer.ours += seconds


def _emit(running: Running, after: Snapshot, duration: float, error: str | None) -> None:
    before = running.before
    assert before is not None
    changed = after.fingerprint != before.fingerprint
    if changed and after.text and after.text == before.text:
        changed = False  # nodes were replaced by others that say the same
    event = PassRun(
        pass_name=running.name,
        graph=running.graph_name,
        index=running.index,
        subsystem=running.subsystem,
        changed=changed,
        op_delta=op_delta(before.ops, after.ops) if changed else {},
        duration_us=max(0.0, duration * 1e6),
        before=before.text if changed else None,
        after=after.text if changed else None,
        custom=running.custom,
        disabled_by=running.disabled_by,
        compile_id=compile_id(),
        error=error,
        within=None if running.within is None else running.within.index,
        slot=running.slot,
        where=running.where,
    )
    seq = probe.emit(event)
    artifacts.note(event)
    if changed and running.effects:
        with probe.under(seq), contained("mutation"):
            place = mutation.Place(running.name, running.graph_name, running.custom, running.subsystem)
            mutation.compare(running.effects, running.graph, place, running.told)
    if running.within is not None:
        running.within.told |= running.told


def _record_unobserved(graph: Any, known: Snapshot, following: Running) -> None:
    """What happened to the graph since it was last looked at is nobody's pass, but it is said."""
    assert following.before is not None
    between = Running(graph, UNOBSERVED, None)
    between.index, following.index = following.index, between.index
    between.before = known
    _emit(between, following.before, 0.0, None)
