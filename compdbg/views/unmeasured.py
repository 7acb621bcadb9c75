"""What was measured of memory: a view whose data only some runs have."""

from __future__ import annotations

from compdbg.views.base import Source, View


def memory(source: Source) -> View:
    return View(name="memory", title="Memory", items=(), empty="memory was not measured in this run")
