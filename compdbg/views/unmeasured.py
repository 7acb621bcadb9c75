"""Views whose data only some runs have: what was measured of memory."""

from __future__ import annotations

from compdbg.views.base import Source, View


def memory(source: Source) -> View:
    return View(name="memory", title="Memory", items=(), empty="memory was not measured in this run")
