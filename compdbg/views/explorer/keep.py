"""`python -m compdbg.views.explorer.keep RUN`: works out what the explorer shows of a long run, and keeps it.

A process of its own (see `apart`): a thread would take turns with the keys.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from compdbg.findings.collect import find_all
from compdbg.model.run import Run
from compdbg.store.index import build_index, home, read_index
from compdbg.store.indexed import IndexedLog
from compdbg.views.base import Source
from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.apart import tell
from compdbg.views.explorer.kept import KEPT, keep_view

_INDEXED, _FOUND = 0.2, 0.75
"""Which part of the time is over by then."""
_FIRST = {"time": ("times",), "fusion": ("fusion", "passes")}
"""Places whose views are made first, and the areas of the run, large ones, that no other place needs."""


def main(folder: Path) -> None:
    gc.disable()  # what is made here stays; looking through it again and again would take most of the time
    index = read_index(folder)
    if index is None:
        index = build_index(folder, lambda part: tell("indexing events", _INDEXED * part))
    if not home(folder).is_dir():
        raise SystemExit(f"{home(folder)} can't be written")
    run = Run(IndexedLog(folder, index))
    source = Source(run, find_all(run, _looking_for))
    for n, name in enumerate(dict.fromkeys([*_FIRST, *KEPT])):
        tell(f"preparing {PLACES[name].title}", _FOUND + (1 - _FOUND) * n / len(KEPT))
        keep_view(PLACES[name], PLACES[name].view(source), folder, source.findings)
        for area in _FIRST.get(name, ()):
            vars(run).pop(area, None)  # it would be made again, should another ask


def _looking_for(code: str, part: float) -> None:
    tell(f"looking for {code}", _INDEXED + (_FOUND - _INDEXED) * part)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
