"""The emit API that hooks and our compiler call: one branch and out when nothing records.

Nothing here ever raises into the program, and nothing here formats unless a sink is set.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from compdbg.events import Event


class Sink(Protocol):
    """What records: the session's writer, or a test's list."""

    def write(self, event: Event, parent: int | None) -> int | None:
        """Append one event; its `seq`, or None if it could not be written."""

    def payload(self, text: str) -> str:
        """Store a large text once; its content hash."""


_sink: Sink | None = None
_stack = threading.local()


_passes: Counter[str] = Counter()
_endings: list[Callable[[], None]] = []
_forks: list[Callable[[], None]] = []


def set_sink(sink: Sink | None) -> None:
    """Start (or with None stop) recording in this process; what was tallied is written first."""
    global _sink
    if sink is None and _sink is not None:
        for action in list(_endings):
            with contextlib.suppress(Exception):
                action()
    _sink = sink


def at_end(action: Callable[[], None]) -> None:
    """Call `action`, which writes what was tallied, each time recording ends in this process."""
    _endings.append(action)


def at_fork(action: Callable[[], None]) -> None:
    """Call `action`, which drops what the parent tallied, in each forked child that is recorded."""
    _forks.append(action)


def forked(sink: Sink) -> None:
    """In a forked child: what it emits goes to a sink of its own."""
    global _sink
    for action in list(_forks):
        with contextlib.suppress(Exception):
            action()
    _sink = sink


def sink() -> Sink | None:
    """What records now."""
    return _sink


def active() -> bool:
    """Whether anything records. Hooks that must compute before they emit ask this first."""
    return _sink is not None


def run_name() -> str:
    """The name of the run that is recorded; nothing where there is none."""
    return str(getattr(_sink, "run", ""))


def audit() -> str:
    """How dropped guards are to be audited: `off`, `budget` (a sample), or `all`."""
    return str(getattr(_sink, "audit", "budget"))


def emit(event: Event, parent: int | None = None) -> int | None:
    """Record one event under `parent`, or else under this thread's innermost `under`; its `seq`."""
    sink = _sink
    if sink is None:
        return None
    if parent is None:
        parents: list[int] | None = getattr(_stack, "parents", None)
        parent = parents[-1] if parents else None
    listener: Callable[[Event], None] | None = getattr(_stack, "listener", None)
    if listener is not None:
        listener(event)
    return sink.write(event, parent)


@contextmanager
def listening(listener: Callable[[Event], None]) -> Iterator[None]:
    """Also give `listener` what this thread emits inside the block, while something records."""
    outer = getattr(_stack, "listener", None)
    _stack.listener = listener
    try:
        yield
    finally:
        _stack.listener = outer


def payload(text: str) -> str:
    """Store a large text by content; its hash, to be put into an event. Empty when not recording."""
    sink = _sink
    return "" if sink is None else sink.payload(text)


@contextmanager
def under(seq: int | None) -> Iterator[None]:
    """Events that this thread emits inside the block have the event `seq` as their parent."""
    if seq is None:
        yield
        return
    parents: list[int] | None = getattr(_stack, "parents", None)
    if parents is None:
        parents = _stack.parents = []
    parents.append(seq)
    try:
        yield
    finally:
        parents.pop()


@contextmanager
def compiling_graph(name: str) -> Iterator[None]:
    """What this thread compiles inside the block is the graph `name`; passes and matches belong to it."""
    names: list[str] = _stack.__dict__.setdefault("graphs", [])
    names.append(name)
    try:
        yield
    except BaseException as error:
        if _stack.__dict__.get("failure", (None, ""))[0] != id(error):
            _stack.failure = (id(error), name)
        raise
    finally:
        names.pop()


def graph_that_failed(errors: Iterable[BaseException]) -> str | None:
    """The innermost graph that this thread was compiling when one of these errors came out of it."""
    error_id, name = _stack.__dict__.pop("failure", (None, None))
    return name if any(id(error) == error_id for error in errors) else None


def next_pass(graph: str) -> int:
    """The number of a pass that begins on a graph: hooks and our compiler count together."""
    _passes[graph] += 1
    return _passes[graph] - 1


def pass_under_way() -> int | None:
    """The number of the innermost pass that this thread was seen to begin, and not to end."""
    return getattr(_stack, "pass_under_way", None)


def set_pass_under_way(index: int | None) -> None:
    """A pass began or ended on this thread."""
    _stack.pass_under_way = index


def graph_under_way() -> str | None:
    """The graph that this thread compiles, where it was given a name."""
    names: list[str] = _stack.__dict__.get("graphs", [])
    return names[-1] if names else None
