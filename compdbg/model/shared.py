"""Equal texts kept once: of a long run, names and graphs come hundreds of thousands of times."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import TypeVar, overload

H = TypeVar("H", bound=Hashable)


@overload
def word(text: str) -> str: ...
@overload
def word(text: None) -> None: ...
@overload
def word(text: str | None) -> str | None: ...
def word(text: str | None) -> str | None:
    """The one object for a text that comes often."""
    return None if text is None else sys.intern(text)


class Shared:
    """The one object for each of equal values, as long as this lives."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Hashable] = {}

    def one(self, value: H) -> H:
        return self._known.setdefault(value, value)  # type: ignore[return-value]
