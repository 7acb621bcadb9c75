"""Compiled results beside eager's: each call that was compared, and how far apart the two were."""

from __future__ import annotations

from collections import Counter

from compdbg.model.numerics import Comparison
from compdbg.views.base import Column, Source, View


def numerics(source: Source) -> View:
    items = source.run.comparisons
    counts = Counter(item.check for item in items)
    return View(
        name="numerics",
        title="Results against eager",
        items=items,
        lines=[f"{n} {check}" for check, n in counts.most_common()],
        columns=(
            Column("graph", lambda c: c.graph),
            Column("call", lambda c: str(c.call), align="right"),
            Column("size", _size, align="right"),
            Column("check", lambda c: c.check),
            Column("piece", lambda c: c.piece),
            Column("largest difference", lambda c: c.form or _number(c.max_abs), align="right"),
            Column("of the largest value", lambda c: _number(c.max_rel), align="right"),
            Column("inputs", lambda c: c.inputs, wide=True),
            Column("why not", lambda c: c.reason),
        ),
        empty=_nothing_compared(source),
    )


def _size(comparison: Comparison) -> str:
    """`3`, or `3 as 4` of a call that was padded."""
    if comparison.size is None:
        return ""
    return f"{comparison.size} as {comparison.padded_to}" if comparison.padded else str(comparison.size)


def _nothing_compared(source: Source) -> str:
    asked = any(hook.hook == "compare" and hook.state == "works" for hook in source.run.health.hooks)
    if not asked:
        return "results were not compared with eager in this run; `compdbg run --compare eager` does"
    return (
        "no call was compared: torch called no graph that it compiled in this run, and no model of the "
        "built-in compiler was called but to warm it up"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
