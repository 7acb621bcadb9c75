"""What many events say alike is kept once: of a long run, texts of a few words are most of its memory."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from compdbg.events import Header, Where

MOST = 200_000
"""Different values that are remembered; what comes after them is kept as it was read."""
_LONGEST = 300
_NOTHING: dict[str, Any] = {}
"""One for the many events that count nothing. Nobody writes to what an event holds."""


class Sharing:
    """Values that have been read, to be used again. Events stay equal to what they were."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def share(self, header: Header, event: Any) -> None:
        """What an event and its header have in common with others is one object from now on."""
        self._share(header, ("process", "run"))
        self._share(event, _names(event.__class__))

    def _share(self, holder: Any, names: tuple[str, ...]) -> None:
        known = self._known
        for name in names:
            value = getattr(holder, name)
            kind = type(value)
            if kind is str:
                if len(value) > _LONGEST:
                    continue
            elif kind is dict:
                if not value:
                    force_setattr(holder, name, _NOTHING)
                continue
            elif kind is not Where:
                if isinstance(value, Struct):
                    self._share(value, _names(kind))
                continue
            before = known.get(value)
            if before is not None:
                force_setattr(holder, name, before)
            elif len(known) < MOST:
                known[value] = value


_fields: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    """The fields that hold more than a number."""
    if kind not in _fields:
        fields = msgspec.structs.fields(kind)
        _fields[kind] = tuple(f.name for f in fields if f.type not in (int, float, bool))
    return _fields[kind]
