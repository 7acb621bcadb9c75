"""`fuse_gemm_comms`: a product and the reduce-scatter after it, or the all-gather before it, as one.

For the collectives that sequence parallelism leaves: without `enable_sp` there is nothing to look for.
Ranges of sizes that are all too small for it to pay are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, fx

from compdbg.compiler.ops.overlapped import OVERLAP_FROM, all_gather_mm, mm_reduce_scatter
from compdbg.compiler.ops.shared_rows import all_gather_rows, reduce_scatter_rows, share
from compdbg.compiler.passes.fusion.forms import HALF, WIDTH, named, value_of, variants
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, FusionPattern
from compdbg.compiler.passes.fusion.ranks import nothing_to_gather, ranks_in, world
from compdbg.compiler.ranges import Range

ROWS = 13
"""Stands for any number of rows."""


class AsyncTPPass(FusionPass):
    """For the group of all ranks, or the `groups` named."""

    def __init__(self, groups: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self.groups = (world(),) if groups is None else groups

    def patterns(self) -> Iterator[FusionPattern]:
        for ranks in self.groups:
            count = ranks_in(ranks)
            yield _before_reduce_scatter(count, ranks)
            for made in (_three, _two, _one):
                yield made(count, ranks)

    def is_applicable_for_range(self, compile_range: Range) -> bool:
        return compile_range.high >= OVERLAP_FROM

    def refusal(self, graph: fx.Graph, compile_range: Range) -> str:
        return nothing_to_gather(graph, self.groups) or super().refusal(graph, compile_range)


def _one_dtype(*names: str) -> Callable[[Any], bool]:
    def operands_have_one_dtype(match: Any) -> bool:
        return len({value_of(match, name).dtype for name in names}) == 1

    return operands_have_one_dtype


def _before_reduce_scatter(count: int, ranks: str) -> FusionPattern:
    def pattern(x: Tensor, weight: Tensor) -> Any:
        return reduce_scatter_rows(torch.mm(x, weight), count, ranks)

    def replacement(x: Tensor, weight: Tensor) -> Any:
        return mm_reduce_scatter(x, weight, count, ranks)

    def make(rows: int, width: int, dtype: torch.dtype) -> list[Tensor]:
        return [torch.empty(rows, width, dtype=dtype), torch.empty(width, width // 2, dtype=dtype)]

    return FusionPattern(
        pattern=named("mm_reduce_scatter", pattern),
        replacement=replacement,
        inputs=lambda: make(ROWS, WIDTH, torch.bfloat16),
        variants=variants(make, torch.float32, *HALF),
        extra_check=_one_dtype("x", "weight"),
    )


def _three(count: int, ranks: str) -> FusionPattern:
    def pattern(x: Tensor, a: Tensor, b: Tensor, c: Tensor, rows: int) -> Any:
        whole = all_gather_rows(x, rows, count, ranks)
        return torch.mm(whole, a), torch.mm(whole, b), torch.mm(whole, c), whole

    def replacement(x: Tensor, a: Tensor, b: Tensor, c: Tensor, rows: int) -> Any:
        whole, *products = all_gather_mm(x, [a, b, c], rows, count, ranks)
        return *products, whole

    return _after_all_gather(named("all_gather_mm3", pattern), replacement, count, "abc")


def _two(count: int, ranks: str) -> FusionPattern:
    def pattern(x: Tensor, a: Tensor, b: Tensor, rows: int) -> Any:
        whole = all_gather_rows(x, rows, count, ranks)
        return torch.mm(whole, a), torch.mm(whole, b), whole

    def replacement(x: Tensor, a: Tensor, b: Tensor, rows: int) -> Any:
        whole, *products = all_gather_mm(x, [a, b], rows, count, ranks)
        return *products, whole

    return _after_all_gather(named("all_gather_mm2", pattern), replacement, count, "ab")


def _one(count: int, ranks: str) -> FusionPattern:
    def pattern(x: Tensor, a: Tensor, rows: int) -> Any:
        whole = all_gather_rows(x, rows, count, ranks)
        return torch.mm(whole, a), whole

    def replacement(x: Tensor, a: Tensor, rows: int) -> Any:
        whole, product = all_gather_mm(x, [a], rows, count, ranks)
        return product, whole

    return _after_all_gather(named("all_gather_mm1", pattern), replacement, count, "a")


def _after_all_gather(
    pattern: Callable[..., Any], replacement: Callable[..., Any], count: int, weights: str
) -> FusionPattern:
    def make(rows: int, width: int, dtype: torch.dtype) -> list[Tensor]:
        halves = [torch.empty(width, width // 2, dtype=dtype) for _ in weights]
        return [torch.empty(share(ROWS, count), width, dtype=dtype), *halves]

    return FusionPattern(
        pattern=pattern,
        replacement=replacement,
        inputs=lambda: make(ROWS, WIDTH, torch.bfloat16),
        variants=variants(make, torch.float32, *HALF),
        scalar_workaround={"rows": ROWS},
        extra_check=_one_dtype("x", *weights),
        exclusive=tuple(weights) if len(weights) > 1 else (),
    )
