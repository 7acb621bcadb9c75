"""The places of the explorer, in the order of their tabs."""

from __future__ import annotations

from compdbg.views.explorer.base import Place
from compdbg.views.explorer.cache import CACHE
from compdbg.views.explorer.code import CODE
from compdbg.views.explorer.diff import DIFF
from compdbg.views.explorer.events import EVENTS
from compdbg.views.explorer.fusion import FUSION
from compdbg.views.explorer.guards import GUARDS
from compdbg.views.explorer.home import HOME
from compdbg.views.explorer.pieces import PIECES
from compdbg.views.explorer.sizes import SIZES
from compdbg.views.explorer.time import TIME

PLACES: dict[str, Place] = {
    place.name: place for place in (HOME, FUSION, GUARDS, SIZES, PIECES, CACHE, TIME, EVENTS, DIFF, CODE)
}
