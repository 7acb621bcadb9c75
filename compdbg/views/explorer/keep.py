"""`python -m compdbg.views.explorer.keep RUN`: works out what the explorer shows of a long run, and keeps it.

A process of its own, so that neither its time nor its memory is the explorer's. Each line that it
prints says how far it is: a part of one, then what is being done.
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
from compdbg.views.explorer.kept import KEPT, keep_view

_INDEXED, _FOUND = 0.3, 0.7
_FIRST = {"time": ("times",), "fusion": ("fusion", "passes")}
"""Places whose views are made first, and the areas of the run, large ones, that no other place needs."""


def main(folder: Path) -> None:
    gc.disable()  # what is made here stays; looking through it again and again would take most of the time
    index = read_index(folder)
    if index is None:
        index = build_index(folder, lambda part: _tell(_INDEXED * part, "indexing events"))
    if not home(folder).is_dir():
        raise SystemExit(f"{home(folder)} can't be written")
    _tell(_INDEXED, "working out findings")
    run = Run(IndexedLog(folder, index))
    source = Source(run, find_all(run))
    for n, name in enumerate(dict.fromkeys([*_FIRST, *KEPT])):
        _tell(_FOUND + (1 - _FOUND) * n / len(KEPT), f"preparing {PLACES[name].title}")
        keep_view(PLACES[name], PLACES[name].view(source), folder)
        for area in _FIRST.get(name, ()):
            vars(run).pop(area, None)  # it would be made again, should another ask


def _tell(part: float, what: str) -> None:
    print(f"{part:.3f} {what}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
