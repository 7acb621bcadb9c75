"""Where recompiles are heading: how a value moves from one to the next, and when the limit will be met."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct


class Forecast(Struct, frozen=True, kw_only=True):
    """The entries that a function has used of those that torch makes, and the call that finds none left."""

    limit: int
    entries: int
    eager_from_call: int
    """At the rate so far. No promise: a value that stops moving never meets the limit."""


def movement(values: Sequence[str]) -> str | None:
    """`grows by 1`, `grows`, `shrinks`, `alternates`, `new each time`; None where it is no trend."""
    if len(values) < 3:
        return None
    if len(set(values)) < len(values):
        return "alternates"
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return "new each time"
    steps = [b - a for a, b in pairwise(numbers)]
    if len(set(steps)) == 1:
        way = "grows" if steps[0] > 0 else "shrinks"
        return f"{way} by {abs(steps[0]):g}"
    if all(step > 0 for step in steps):
        return "grows"
    return "shrinks" if all(step < 0 for step in steps) else "new each time"


def forecast(entries: int, limit: int | None, calls: Sequence[int | None]) -> Forecast | None:
    """From the calls that were compiled for one cause; None with fewer than two of them, or at the limit."""
    known = [call for call in calls if call is not None]
    if limit is None or len(known) < 2 or entries > limit:
        return None
    every = (known[-1] - known[0]) / (len(known) - 1)
    if every <= 0:
        return None
    left = limit - entries
    return Forecast(limit=limit, entries=entries, eager_from_call=round(known[-1] + every * (left + 1)))
