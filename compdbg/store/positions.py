"""Where in a log each event stands, by its id: four bytes an event, and not a text and a table's entry."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from compdbg.events import Header

_ROOM = 1 << 16
"""Numbers that may be missing in a row; a line that claims a number far above is kept apart."""


class Positions:
    """The positions of headers in the order in which they are given, by process and number."""

    def __init__(self, headers: Iterable[Header]) -> None:
        self._of: dict[str, array[int]] = {}
        self._apart: dict[tuple[str, int], int] = {}
        for position, header in enumerate(headers):
            known = self._of.setdefault(header.process, array("I"))
            if 0 <= header.seq < len(known) + _ROOM:
                known.extend([0] * (header.seq + 1 - len(known)))
                known[header.seq] = position + 1
            else:
                self._apart[header.process, header.seq] = position

    def of(self, id: str) -> int | None:
        """The position of the event `process:seq`; of several of that name, the last."""
        process, _, number = id.rpartition(":")
        if not number.isdecimal() or str(int(number)) != number:
            return None
        known, seq = self._of.get(process, ()), int(number)
        if seq < len(known) and known[seq]:
            return known[seq] - 1
        return self._apart.get((process, seq))
