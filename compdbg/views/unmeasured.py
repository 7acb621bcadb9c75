"""Views whose data only some runs have: what was compared with eager, what was measured of memory."""

from __future__ import annotations

from compdbg.views.base import Source, View


def numerics(source: Source) -> View:
    return View(
        name="numerics",
        title="Results against eager",
        items=(),
        empty="results were not compared with eager in this run",
    )


def memory(source: Source) -> View:
    return View(name="memory", title="Memory", items=(), empty="memory was not measured in this run")
