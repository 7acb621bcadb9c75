"""The sizes that were called or captured: how each was compiled, padded, captured and served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from compdbg.model.capture_sizes import Padding
from compdbg.model.sizes import ServedSize
from compdbg.views.base import Column, Source, View
from compdbg.views.places import size
from compdbg.views.served import (
    captures_said,
    compiled_as,
    padding_checked,
    replays_said,
    trouble,
    what_captures_hold,
)


def sizes(source: Source) -> View:
    rows, leaks = source.run.sizes, leaks_by_size(source)
    return View(
        name="sizes",
        title="Sizes and captures",
        lines=[*what_captures_hold(rows), *_padding(source, leaks)],
        items=rows,
        columns=(
            Column("graph", lambda s: s.graph),
            Column("size", lambda s: str(s.size), align="right"),
            Column("compiled as", compiled_as),
            Column("padded to", lambda s: str(s.padded_to or ""), align="right"),
            Column("captures", captures_said, align="right"),
            Column("took", lambda s: _milliseconds(s.capture_ms), align="right"),
            Column("holds", lambda s: size(s.capture_bytes), align="right"),
            Column("replays", replays_said, align="right"),
            Column("no replay", lambda s: str(s.eager_calls or ""), align="right"),
            Column("trouble", lambda s: _leaked(leaks, s) or trouble(s), wide=True),
        ),
        empty="no size was captured or dispatched: the program used no engine that captures by size",
    )


def leaks_by_size(source: Source) -> Mapping[tuple[str, int], list[str]]:
    """Graph and size -> what the rows changed that padding added."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for leak in source.run.leaks:
        for rows, _ in leak.sizes:
            found[leak.graph, rows] += leak.what
    return found


def _leaked(leaks: Mapping[tuple[str, int], list[str]], served: ServedSize) -> str:
    changed = leaks.get((served.graph, served.size), [])
    return f"padding changes {', '.join(changed)}" if changed else ""


def _milliseconds(taken: float | None) -> str:
    return "" if taken is None else f"{taken:.1f} ms"


def _padding(source: Source, leaks: Mapping[tuple[str, int], list[str]]) -> list[str]:
    """What padding costs each graph, and whether it does harm."""
    checked = padding_checked(source.run.sizes, leaks)
    return [*map(_cost, (p for p in source.run.padding if p.added)), *([checked] if checked else [])]


def _cost(padding: Padding) -> str:
    line = (
        f"{padding.graph}: {padding.added} of {padding.rows} replayed rows ({padding.share:.0%}) are padding"
    )
    if padding.best_added >= padding.added:
        return line
    sizes = ", ".join(map(str, padding.best))
    return f"{line}; capture sizes {sizes} would add {padding.best_added}"
