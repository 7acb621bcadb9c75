"""`fuse_allreduce_rms`: the sum over ranks, residual, RMSNorm and quantisation as one operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from compdbg.compiler.ops import reduced_norms
from compdbg.compiler.ops.norms import norm
from compdbg.compiler.ops.quant import LIMITS, dynamic_quant, static_quant
from compdbg.compiler.ops.reduced_norms import reduced
from compdbg.compiler.passes.fusion.forms import SHORT, named
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, FusionPattern
from compdbg.compiler.passes.fusion.ranks import nothing_to_gather, world
from compdbg.compiler.passes.fusion.rms_quant_fusion import norm_form
from compdbg.compiler.ranges import Range

Total = Callable[[Tensor, Tensor], Tensor]
"""The sum over ranks and the sum with the residual, in one of the two orders."""


class Replacements(NamedTuple):
    """What takes the place of each kind of form; parameters as in `reduced_norms`."""

    plain: Callable[..., Any]
    static: Callable[..., Any]
    dynamic: Callable[..., Any]


class AllReduceRMSNormFusionPass(FusionPass):
    """For the group of all ranks, or the `groups` named."""

    def __init__(self, groups: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self.groups = (world(),) if groups is None else groups

    def patterns(self) -> Iterator[FusionPattern]:
        fused = Replacements(
            reduced_norms.all_reduce_add_rms_norm,
            reduced_norms.all_reduce_add_rms_norm_static_quant,
            reduced_norms.all_reduce_add_rms_norm_dynamic_quant,
        )
        for ranks in self.groups:
            yield from reduced_norm_forms(ranks, fused)

    def refusal(self, graph: fx.Graph, compile_range: Range) -> str:
        return nothing_to_gather(graph, self.groups) or super().refusal(graph, compile_range)


def reduced_norm_forms(ranks: str, by: Replacements) -> Iterator[FusionPattern]:
    """An all-reduce, the sum with the residual, a norm, and quantisation or none: the most special first."""
    for total in (_residual_last(ranks), _residual_first(ranks)):
        for dtype in LIMITS:
            yield _static(dtype, ranks, total, by.static)
            yield _dynamic(dtype, ranks, total, by.dynamic)
        yield _plain(ranks, total, by.plain)


def _residual_last(ranks: str) -> Total:
    return named("", lambda x, residual: reduced(x, ranks) + residual)


def _residual_first(ranks: str) -> Total:
    return named("residual_first_", lambda x, residual: residual + reduced(x, ranks))


def _static(to: torch.dtype, ranks: str, total_of: Total, fused: Callable[..., Any]) -> FusionPattern:
    def pattern(x: Tensor, residual: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int) -> Any:
        total = total_of(x, residual)
        return static_quant(norm(total, weight, eps, style), scale, to), total

    def replacement(
        x: Tensor, residual: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int
    ) -> Any:
        return fused(x, residual, weight, scale, eps, style, to, ranks)

    name = f"all_reduce_{total_of.__name__}norm_static_{SHORT[to]}"
    return norm_form(named(name, pattern), replacement, to)


def _dynamic(to: torch.dtype, ranks: str, total_of: Total, fused: Callable[..., Any]) -> FusionPattern:
    def pattern(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, group: int) -> Any:
        total = total_of(x, residual)
        out, scales = dynamic_quant(norm(total, weight, eps, style), group, to)
        return out, scales, total

    def replacement(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, group: int) -> Any:
        return fused(x, residual, weight, eps, style, group, to, ranks)

    name = f"all_reduce_{total_of.__name__}norm_dynamic_{SHORT[to]}"
    return norm_form(named(name, pattern), replacement, to)


def _plain(ranks: str, total_of: Total, fused: Callable[..., Any]) -> FusionPattern:
    def pattern(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int) -> Any:
        total = total_of(x, residual)
        return norm(total, weight, eps, style), total

    def replacement(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int) -> Any:
        return fused(x, residual, weight, eps, style, ranks)

    return norm_form(named(f"all_reduce_{total_of.__name__}norm", pattern), replacement, None)
