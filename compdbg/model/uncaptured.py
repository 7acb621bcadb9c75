"""Calls that ran without a capture though captures are made, by the reason for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from compdbg.model.sizes import ServedSize

UNKNOWN = "no-capture"
"""Sizes within the captured range that have none, where nothing says why."""
ELSEWHERE = ("moved", "changed")
"""Calls that were refused a replay, for a cause that is a finding of its own."""


class Uncaptured(Struct, frozen=True, kw_only=True):
    """Calls of one graph that ran without a capture for one reason; `of` are all of its calls.

    Warm-ups are in neither. `never` says that no call of the graph was a replay.
    """

    graph: str
    reason: str
    calls: int
    of: int
    sizes: list[int]
    largest: int | None
    why: str
    never: bool
    events: list[str]

    @property
    def share(self) -> float:
        return self.calls / self.of if self.of else 0.0


def build_uncaptured(sizes: Sequence[ServedSize]) -> list[Uncaptured]:
    return [one for graph, rows in groupby(sizes, lambda s: s.graph) for one in _of_graph(graph, list(rows))]


def _of_graph(graph: str, rows: list[ServedSize]) -> list[Uncaptured]:
    of = sum(row.replays + row.eager_calls - row.warm_ups for row in rows)
    asked = [row.largest for row in rows if row.largest is not None]
    made = [row.size for row in rows if row.captured and row.captures]
    largest = max(asked or made, default=None)
    reasons = [_reasons(row, largest) for row in rows]
    return [
        Uncaptured(
            graph=graph,
            reason=reason,
            calls=sum(found.get(reason, 0) for found in reasons),
            of=of,
            sizes=[row.size for row, found in zip(rows, reasons, strict=True) if found.get(reason)],
            largest=largest,
            why=next((row.why for row in rows if row.why), ""),
            never=not any(row.replays for row in rows),
            events=[
                event
                for row, found in zip(rows, reasons, strict=True)
                if found.get(reason)
                for event in row.events
            ],
        )
        for reason in dict.fromkeys(reason for found in reasons for reason in found)
    ]


def _reasons(row: ServedSize, largest: int | None) -> dict[str, int]:
    """What was recorded, where anything is to be captured; of an engine that says no reasons, what
    follows from the sizes.

    There, calls of a size that has a capture are taken for its warm-ups.
    """
    if row.largest is not None:
        return row.uncaptured
    if row.uncaptured:
        return {}
    if largest is None or not row.eager_calls or row.captured:
        return {}
    return {"too-large" if row.size > largest else UNKNOWN: row.eager_calls}
