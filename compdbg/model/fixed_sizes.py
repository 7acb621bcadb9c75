"""Sizes that became numbers, and the dropped guards that held them there."""

from __future__ import annotations

from collections.abc import Iterable

from compdbg.model.guards import Violated
from compdbg.model.symbols import Dimension


def fixed_sizes(violated: Violated, dimensions: Iterable[Dimension]) -> list[Dimension]:
    """The sizes, asked to vary, whose becoming a number is why this guard was false.

    With them those that the same line fixed: they are one finding.
    """
    static = [
        each
        for each in dimensions
        if each.is_static and each.frame == violated.entry.frame and each.asked not in ("automatic", "static")
    ]
    first = violated.first
    places = {_place(each) for each in static if f"{each.tensor}.shape[{each.dim}]" == first.name}
    return [each for each in static if _place(each) in places]


def _place(each: Dimension) -> tuple[object, ...]:
    return each.fixed.where if each.fixed else None, each.zero_one, each.why != ""
