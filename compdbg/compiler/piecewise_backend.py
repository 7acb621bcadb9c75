"""One piece, compiled for each range and size, and dispatched by the batch size of the call."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compdbg.compiler.ranges import STATIC, Range

Runnable = Callable[..., Sequence[Any]]


class PiecewiseBackend:
    """What is called for a compiled piece.

    `runnables` are the compiled versions by range; `size_index` is the input that is the batch
    size. `constants` follow the inputs: values that a shared version takes as inputs.
    """

    def __init__(
        self,
        name: str,
        runnables: Mapping[Range, Runnable],
        size_index: int | None,
        size_checks: Sequence[int] = (),
        constants: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.runnables = dict(runnables)
        self.constants = tuple(constants)
        self._size_index = size_index
        self._size_checks = tuple(size_checks)
        self._singles = {r.low: f for r, f in runnables.items() if r.is_single and r != STATIC}
        ranges = sorted(r for r in runnables if not r.is_single or r == STATIC)
        self._lows = [r.low for r in ranges]
        self._ranges = [(r, runnables[r]) for r in ranges]

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        runnable = self.runnable_for(inputs)
        return runnable(*inputs, *self.constants) if self.constants else runnable(*inputs)

    def runnable_for(self, inputs: Sequence[Any]) -> Runnable:
        """The version for the batch size of these inputs."""
        index = self._size_index
        if index is None:
            return self._ranges[-1][1]
        size: int = inputs[index]
        single = self._singles.get(size)
        if single is not None and all(inputs[i] == size for i in self._size_checks):
            return single
        found = bisect.bisect_right(self._lows, size) - 1
        return self._ranges[max(found, 0)][1]

    def simplest(self) -> Runnable:
        """What to call instead where there is nothing to choose: the one version itself."""
        if len(self.runnables) == 1 and not self.constants:
            return next(iter(self.runnables.values()))
        return self
