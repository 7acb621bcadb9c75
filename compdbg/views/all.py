"""The views by name, in the order in which they are listed."""

from __future__ import annotations

from compdbg.views.base import ViewMaker
from compdbg.views.cache import cache
from compdbg.views.config import config
from compdbg.views.events import events
from compdbg.views.findings import findings
from compdbg.views.frames import frames
from compdbg.views.fusion import fusion
from compdbg.views.guards import guards
from compdbg.views.health import health
from compdbg.views.numerics import numerics
from compdbg.views.passes import passes
from compdbg.views.sizes import sizes
from compdbg.views.splits import splits
from compdbg.views.summary import summary
from compdbg.views.time import time
from compdbg.views.unmeasured import memory

VIEWS: dict[str, ViewMaker] = {
    "summary": summary,
    "findings": findings,
    "frames": frames,
    "guards": guards,
    "fusion": fusion,
    "passes": passes,
    "splits": splits,
    "sizes": sizes,
    "cache": cache,
    "config": config,
    "numerics": numerics,
    "memory": memory,
    "time": time,
    "events": events,
    "health": health,
}
