"""How often each compiled entry was called: a counter in the entry's guard check, and its tally.

torch calls the lambda only for the entry that serves the call, so the counts are exact: calls
that run eager after the recompile limit, or that another entry serves, are not among them.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

from compdbg import probe
from compdbg.events import FrameCalls, GuardAudit
from compdbg.hooks.base import contained
from compdbg.hooks.current import frame_key


def _no_guard() -> None:
    return None


class Tally:
    """What happened to one compiled entry so far. Holds numbers and texts, never an input."""

    __slots__ = (
        "audited", "cached", "causes", "checked", "closed", "code", "compile_id", "due", "frame", "guard",
        "guards_event", "left", "on_close", "reach", "seconds", "skipped_by", "told", "violations",
    )  # fmt: skip

    def __init__(self, code: CodeType, compile_id: str) -> None:
        self.code = code
        self.frame = frame_key(code)
        self.compile_id = compile_id
        self.guards_event: int | None = None
        self.guard: Callable[[], Callable[[Any], bool] | None] = _no_guard
        """Weakly, the guard that counts and audits: for who serves calls without torch's check."""
        self.reach = 1
        """The number of the call at which `left` is used up; the compile is call 1, without a check."""
        self.left: itertools.repeat[bool] = itertools.repeat(True, 0)
        self.due = 10
        """The call at which the counts are written next."""
        self.told = (0, 0)
        self.closed = False
        self.cached = True
        """Held by Dynamo's cache, and gone with it; what was compiled ahead of time is not."""
        self.on_close: Callable[[], Any] | None = None
        """What else ends with the recording. Must not keep the entry alive."""
        self.audited = False
        self.skipped_by = ""
        """Who has torch skip guards that it kept."""
        self.checked = 0
        self.seconds = 0.0
        self.violations: dict[str, int] = {}
        self.causes: dict[str, int] = {}

    @property
    def calls(self) -> int:
        return self.reach - operator.length_hint(self.left)

    def tell(self) -> None:
        """Write the counts, if they have changed."""
        now = (self.calls, self.checked)
        if now == self.told or self.closed:
            return
        self.told = now
        probe.emit(FrameCalls(frame=self.frame, compile_id=self.compile_id, calls=now[0]), self.guards_event)
        if self.audited:
            probe.emit(
                GuardAudit(
                    frame=self.frame,
                    compile_id=self.compile_id,
                    calls=now[0],
                    checked=self.checked,
                    violations=dict(self.violations),
                    causes=dict(self.causes),
                    seconds=round(self.seconds, 6),
                    skipped_by=self.skipped_by,
                ),
                self.guards_event,
            )

    def tell_at_due(self) -> None:
        """At each power of ten: the log of a program that is killed has the counts roughly."""
        self.due *= 10
        self.tell()


_tallies: dict[CodeType, list[Tally]] = {}


def open_tally(code: CodeType, compile_id: str) -> Tally:
    """The tally of a new entry; what is known of older ones is written first."""
    tell_all()
    tally = Tally(code, compile_id)
    _tallies.setdefault(code, []).append(tally)
    return tally


def tallies_of(code: CodeType) -> list[Tally]:
    """The tallies of a code object's compiled entries, oldest first."""
    return _tallies.get(code, [])


def calls_of(code: CodeType) -> int:
    """Calls of all compiled entries of a code object so far, each compile counted as its first call."""
    return sum(tally.calls for tally in _tallies.get(code, ()))


def tell_all() -> None:
    for tallies in list(_tallies.values()):
        for tally in list(tallies):
            tally.tell()


def close_cached() -> None:
    """Dynamo has emptied its cache: torch may keep an entry's guards alive, but nobody calls them."""
    tell_all()
    _close(tally for tallies in _tallies.values() for tally in tallies if tally.cached)


def forget_all() -> None:
    """Recording ends: entries that live on count for nobody."""
    _close(tally for tallies in _tallies.values() for tally in tallies)
    _tallies.clear()


def _close(tallies: Iterable[Tally]) -> None:
    for tally in tallies:
        tally.closed = True
        if tally.on_close is not None:
            tally.on_close()
            tally.on_close = None


def drop_parents_counts() -> None:
    """In a forked child: what the parent counted is the parent's to tell."""
    for tallies in _tallies.values():
        for tally in tallies:
            tally.told = (tally.calls, tally.checked)
            tally.guards_event = None


def counter(tally: Tally) -> Callable[[Any], bool]:
    """An always-true guard that counts calls in C: 0.03 µs each.

    It draws from runs of True that end where the tally is due; only there Python code runs.
    """
    return functools.partial(next, itertools.chain.from_iterable(_runs(tally)))


def _runs(tally: Tally) -> Iterator[Iterator[bool]]:
    while True:
        run = itertools.repeat(True, tally.due - tally.reach)
        tally.left, tally.reach = run, tally.due
        yield run
        with contained("guards"):
            tally.tell_at_due()
