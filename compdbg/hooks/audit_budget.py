"""Which calls are audited: the first hundred, the first of each kind, and then 1% of the frame's time."""

from __future__ import annotations

import time
from typing import Any

_FIRST = 100
_SHARE = 0.01
_NEVER = 1 << 62
_MOST_SIGNATURES = 1024
_MOST_ITEMS = 16
_SCALARS = frozenset((bool, int, float, str, type(None)))
_CONTAINERS = frozenset((list, tuple, dict))


class Budget:
    """Decides call by call. With `every` it wants all of them.

    The frame's time is not measured on every call: only the time from the end of an audit to the
    start of the next call is. The shortest of late is nearest to what the frame takes.
    """

    def __init__(self, every: bool, tensor_types: tuple[type, ...]) -> None:
        self._every = every
        self._tensors = frozenset(tensor_types)
        self._timed = _NEVER
        """The call that ends the time to be measured."""
        self._due = _NEVER
        self._ended = 0.0
        self._cost = 0.0
        self._frame = 0.0
        self._signatures: set[Any] | None = set()

    def wants(self, call: int, f_locals: dict[str, Any]) -> bool:
        if self._every:
            return True
        new = self._is_new(f_locals)
        if call == self._timed:
            self._measure(call)
        return new or call <= _FIRST or call >= self._due

    def spent(self, call: int, began: float, ended: float) -> None:
        """An audit took from `began` to `ended`."""
        cost = ended - began
        self._cost = 0.75 * self._cost + 0.25 * cost if self._cost else cost
        self._ended = ended
        self._timed, self._due = call + 1, _NEVER

    def _measure(self, call: int) -> None:
        between = time.perf_counter() - self._ended
        self._frame = max(1e-7, min(between, 1.25 * self._frame) if self._frame else between)
        self._due = call + int(self._cost / (_SHARE * self._frame))

    def _is_new(self, f_locals: dict[str, Any]) -> bool:
        """Whether no call before had these shapes, dtypes, types and plain values."""
        known = self._signatures
        if known is None:
            return False
        signature = tuple([self._of(value) for value in f_locals.values()])
        if signature in known:
            return False
        known.add(signature)
        if len(known) > _MOST_SIGNATURES:
            self._signatures = None
        return True

    def _of(self, value: Any) -> Any:
        kind = value.__class__
        if kind in self._tensors:
            return value.shape, value.dtype
        if kind in _SCALARS:
            return kind, value
        return self._of_items(kind, value) if kind in _CONTAINERS else kind

    def _of_items(self, kind: type, container: Any) -> Any:
        items = list(container.values()) if kind is dict else container
        flat = [
            item.__class__ if item.__class__ in _CONTAINERS else self._of(item)
            for item in items[:_MOST_ITEMS]
        ]
        return (kind, len(items), *flat)
