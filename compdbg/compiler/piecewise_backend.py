"""One piece, compiled for each range and size, and dispatched by the batch size of the call."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from compdbg.compiler.piece_guards import SizeGuard
from compdbg.compiler.ranges import STATIC, Range
from compdbg.compiler.work_record import WorkRecord

Runnable = Callable[..., Sequence[Any]]


class Compiled(Struct, frozen=True, weakref=True, kw_only=True):
    """One version of a piece. `saved` and `libraries` are what it can be loaded from."""

    key: str
    runnable: Runnable
    good_for: tuple[tuple[int, ...], ...] | None = None
    """None: twins with any constants may use it; else those with these."""
    guards: tuple[SizeGuard, ...] = ()
    """What compiling it came to assume about sizes."""
    saved: bytes | None = None
    libraries: dict[str, bytes] = {}
    record: WorkRecord = WorkRecord()

    def holds_for(self, constants: tuple[int, ...]) -> bool:
        return self.good_for is None or constants in self.good_for


class PiecewiseBackend:
    """What is called for a compiled piece.

    `versions` are the compiled ones by range; `sizes` are the inputs that are the batch size, the
    first of which decides. `constants` follow the inputs: values that a shared version takes.
    """

    def __init__(
        self,
        name: str,
        versions: Mapping[Range, Compiled],
        sizes: Sequence[int],
        constants: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.versions = dict(versions)
        self.constants = tuple(constants)
        self.sizes = tuple(sizes)
        self._size = sizes[0] if sizes else None
        self._singles = {r.low: v.runnable for r, v in versions.items() if r.is_single and r != STATIC}
        ranges = sorted(r for r in versions if not r.is_single or r == STATIC)
        self._lows = [r.low for r in ranges]
        self._ranges = [versions[r].runnable for r in ranges]

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        runnable = self.runnable_for(inputs)
        return runnable(*inputs, *self.constants) if self.constants else runnable(*inputs)

    def runnable_for(self, inputs: Sequence[Any]) -> Runnable:
        """The version for the batch size of these inputs."""
        if self._size is None:
            return self._ranges[-1]
        size: int = inputs[self._size]
        single = self._singles.get(size)
        if single is not None and all(inputs[i] == size for i in self.sizes):
            return single
        found = bisect.bisect_right(self._lows, size) - 1
        return self._ranges[max(found, 0)]

    def simplest(self) -> Runnable:
        """What to call instead where there is nothing to choose: the one version itself."""
        if len(self.versions) == 1 and not self.constants:
            return next(iter(self.versions.values())).runnable
        return self

    def state(self) -> dict[str, Any]:
        """For the disk: versions by their keys."""
        versions = {str(each): version.key for each, version in self.versions.items()}
        return {"versions": versions, "sizes": self.sizes, "constants": self.constants}

    @staticmethod
    def from_state(name: str, state: dict[str, Any], versions: Mapping[str, Compiled]) -> PiecewiseBackend:
        by_range = {Range.parse(text): versions[key] for text, key in state["versions"].items()}
        return PiecewiseBackend(name, by_range, state["sizes"], state["constants"])
