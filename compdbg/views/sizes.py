"""The sizes that were called or captured: how each was compiled, padded, captured and served."""

from __future__ import annotations

from compdbg.model.pipeline import ServedSize
from compdbg.views.base import Column, Source, View
from compdbg.views.places import size


def sizes(source: Source) -> View:
    return View(
        name="sizes",
        title="Sizes and captures",
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
            Column("trouble", _trouble),
        ),
        empty="no size was captured or dispatched: the program used no engine that captures by size",
    )


def _trouble(served: ServedSize) -> str:
    """Why there is no capture, or how many calls it could not stand for."""
    if served.fault:
        return f"not captured: {served.fault}"
    return f"{served.refused} calls not replayed" if served.refused else ""
