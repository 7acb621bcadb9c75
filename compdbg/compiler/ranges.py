"""Ranges of batch sizes: for which a piece is compiled, and in which a call falls."""

from __future__ import annotations

from typing import NamedTuple

from compdbg.compiler.config import CompilationConfig

UNBOUNDED = 2**31 - 1


class Range(NamedTuple):
    """Inclusive bounds; a single size where they are equal."""

    low: int
    high: int

    @property
    def is_single(self) -> bool:
        return self.low == self.high

    def __contains__(self, size: object) -> bool:
        return isinstance(size, int) and self.low <= size <= self.high

    def __str__(self) -> str:
        if self.is_single:
            return str(self.low)
        return f"{self.low}-{self.high}" if self.high < UNBOUNDED else f"{self.low}-"

    @staticmethod
    def parse(text: str) -> Range:
        low, dash, high = text.partition("-")
        return Range(int(low), (int(high) if high else UNBOUNDED) if dash else int(low))


STATIC = Range(0, 0)
"""Stands for "not by size": a piece that does not depend on the batch size."""


def compile_ranges(config: CompilationConfig) -> list[Range]:
    """All that a piece is compiled for: the sizes on their own, then ranges that leave nothing out."""
    singles = [Range(size, size) for size in config.compile_sizes or () if isinstance(size, int)]
    asked = [Range(low, high) for low, high in sorted(config.compile_ranges or ())]
    whole: list[Range] = []
    start = 1
    for low, high in asked:
        if low > start:
            whole.append(Range(start, low - 1))
        whole.append(Range(low, high))
        start = high + 1
    if start <= UNBOUNDED:
        whole.append(Range(start, UNBOUNDED))
    return [*(single for single in singles if single not in whole), *whole]
