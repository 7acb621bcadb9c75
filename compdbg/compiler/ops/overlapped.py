"""A matrix product and the collective around it as one operator.

On a GPU, from `OVERLAP_FROM` rows up, both are done in chunks side by side (torch's symmetric memory);
else one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from compdbg.compiler.ops.define import operator
from compdbg.compiler.ops.shared_rows import all_gather_rows, reduce_scatter_rows, share

_KERNELS = "compdbg.compiler.ops.overlapped_kernels"

OVERLAP_FROM = 2048
"""Fewer rows are quicker one after the other: side by side takes two streams and four barriers."""


def mm_then_reduce_scatter(x: Tensor, weight: Tensor, count: int, ranks: str) -> Tensor:
    """One after the other."""
    summed: Tensor = reduce_scatter_rows(x @ weight, count, ranks)
    return summed


def all_gather_then_mm(
    x: Tensor, weights: Sequence[Tensor], rows: int, count: int, ranks: str
) -> list[Tensor]:
    """One after the other."""
    whole = all_gather_rows(x, rows, count, ranks)
    return [whole, *(whole @ weight for weight in weights)]


mm_reduce_scatter = operator(
    "mm_reduce_scatter(Tensor x, Tensor weight, int count, str ranks) -> Tensor",
    mm_then_reduce_scatter,
    lambda x, weight, count, ranks: x.new_empty((share(x.shape[0], count), weight.shape[1])),
    f"{_KERNELS}:mm_reduce_scatter",
)
all_gather_mm = operator(
    "all_gather_mm(Tensor x, Tensor[] weights, SymInt rows, int count, str ranks) -> Tensor[]",
    all_gather_then_mm,
    lambda x, weights, rows, count, ranks: [
        x.new_empty((rows, x.shape[1])),
        *(x.new_empty((rows, weight.shape[1])) for weight in weights),
    ],
    f"{_KERNELS}:all_gather_mm",
)
