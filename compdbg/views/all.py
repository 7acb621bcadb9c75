"""The views by name, in the order in which they are listed."""

from __future__ import annotations

from compdbg.views.base import ViewMaker
from compdbg.views.events import events
from compdbg.views.findings import findings
from compdbg.views.summary import summary

VIEWS: dict[str, ViewMaker] = {
    "summary": summary,
    "findings": findings,
    "events": events,
}
