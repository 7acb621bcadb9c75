"""The sizes that were called or captured: how each was compiled, padded, captured and served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from compdbg.model.capture_sizes import Padding
from compdbg.model.pipeline import ServedSize
from compdbg.views.base import Column, Source, View
from compdbg.views.places import size


def sizes(source: Source) -> View:
    leaks = leaks_by_size(source)
    return View(
        name="sizes",
        title="Sizes and captures",
        lines=[_padding(padding) for padding in source.run.padding if padding.added],
        items=source.run.sizes,
        columns=(
            Column("graph", lambda s: s.graph),
            Column("size", lambda s: str(s.size), align="right"),
            Column("compiled as", lambda s: s.compiled_as or ""),
            Column("padded to", lambda s: str(s.padded_to or ""), align="right"),
            Column("captures", lambda s: str(s.captures), align="right"),
            Column("replays", lambda s: str(s.replays), align="right"),
            Column("without capture", lambda s: str(s.eager_calls), align="right"),
            Column(
                "capture ms", lambda s: "" if s.capture_ms is None else f"{s.capture_ms:.1f}", align="right"
            ),
            Column("capture size", lambda s: size(s.capture_bytes), align="right"),
            Column("trouble", lambda s: _leaked(leaks, s) or _trouble(s)),
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


def _trouble(served: ServedSize) -> str:
    """Why there is no capture, or why calls were no replays."""
    if served.fault:
        return f"not captured: {served.fault}"
    if served.uncaptured:
        return ", ".join(f"{reason} {count}" for reason, count in served.uncaptured.items())
    return f"{served.refused} calls not replayed" if served.refused else ""


def _padding(padding: Padding) -> str:
    line = (
        f"{padding.graph}: {padding.added} of {padding.rows} replayed rows ({padding.share:.0%}) are padding"
    )
    if padding.best_added >= padding.added:
        return line
    sizes = ", ".join(map(str, padding.best))
    return f"{line}; capture sizes {sizes} would add {padding.best_added}"
