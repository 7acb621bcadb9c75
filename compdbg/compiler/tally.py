"""How calls of each size were served: counted while something records, told at 1, 10, 100 ... calls."""

from __future__ import annotations

import weakref

from compdbg import probe
from compdbg.events import Dispatch

_REFUSED = ("moved", "changed", "form", "disagree")


class Served:
    """The counts of one size."""

    __slots__ = (
        "captures",
        "compiled_as",
        "eager_calls",
        "graph",
        "largest",
        "next_word",
        "padded_to",
        "padding_checks",
        "refused",
        "replays",
        "replays_by_mode",
        "size",
        "uncaptured",
        "warm_ups",
        "why",
    )

    def __init__(
        self, graph: str, size: int, compiled_as: str | None, largest: int | None, *, checks_padding: bool
    ) -> None:
        self.graph = graph
        self.size = size
        self.compiled_as = compiled_as
        self.largest = largest
        self.why = ""
        self.padded_to: int | None = None
        self.padding_checks: int | None = 0 if checks_padding else None
        self.begin()

    def begin(self) -> None:
        """Count from zero."""
        self.replays = self.captures = 0
        self.eager_calls = self.warm_ups = self.refused = 0
        self.uncaptured: dict[str, int] = {}
        self.replays_by_mode: dict[str, int] = {}
        self.next_word = 1
        if self.padding_checks is not None:
            self.padding_checks = 0

    def replay(self, mode: str) -> None:
        """A call that was a replay of the captures that `mode` makes."""
        if probe.active():
            self.replays += 1
            self.replays_by_mode[mode] = self.replays_by_mode.get(mode, 0) + 1
            self._count()

    def warm_up(self) -> None:
        if probe.active():
            self.eager_calls += 1
            self.warm_ups += 1
            self._count()

    def eager_call(self, reason: str) -> None:
        """A call without a capture that is no warm-up. `reason` is one of `Dispatch.uncaptured`."""
        if probe.active():
            self.eager_calls += 1
            self.refused += reason in _REFUSED
            self.uncaptured[reason] = self.uncaptured.get(reason, 0) + 1
            self._count()

    def padding_checked(self) -> None:
        """A replay has been checked for rows that leak; it is counted as a replay too."""
        if probe.active() and self.padding_checks is not None:
            self.padding_checks += 1

    def _count(self) -> None:
        if self.replays + self.eager_calls >= self.next_word:
            self.next_word *= 10
            self.tell()

    def tell(self) -> None:
        probe.emit(
            Dispatch(
                graph=self.graph,
                size=self.size,
                compiled_as=self.compiled_as,
                padded_to=self.padded_to,
                replays=self.replays,
                replays_by_mode=dict(self.replays_by_mode),
                captures=self.captures,
                eager_calls=self.eager_calls,
                warm_ups=self.warm_ups,
                refused=self.refused,
                uncaptured=dict(self.uncaptured),
                why=self.why,
                largest=self.largest,
                padding_checks=self.padding_checks,
            )
        )


class Tally:
    """The counts of one graph, by size."""

    def __init__(self, graph: str, largest: int | None = None, *, checks_padding: bool = False) -> None:
        self.graph = graph
        self.largest = largest
        self.checks_padding = checks_padding
        self.sizes: dict[int, Served] = {}
        _open.add(self)

    def of(self, size: int, compiled_as: str | None = None) -> Served:
        served = self.sizes.get(size)
        if served is None:
            served = self.sizes[size] = Served(
                self.graph, size, compiled_as, self.largest, checks_padding=self.checks_padding
            )
        return served

    def close(self) -> None:
        """Write the last word of this recording, and begin the next one at zero."""
        for served in self.sizes.values():
            if served.replays or served.captures or served.eager_calls:
                served.tell()
            served.begin()


_open: weakref.WeakSet[Tally] = weakref.WeakSet()


def _close_all() -> None:
    for tally in list(_open):
        tally.close()


probe.at_end(_close_all)
