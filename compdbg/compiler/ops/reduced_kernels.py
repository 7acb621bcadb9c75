"""On a GPU: the sum over ranks with all that follows it in one launch, through memory that ranks share.

Where there is no such memory, the group's own all-reduce comes before one kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from compdbg.compiler.ops import reduced_norms
from compdbg.compiler.ops.norm_kernels import DYNAMIC, NO_QUANT, STATIC, rows
from compdbg.compiler.ops.norms import WEIGHT_IN_FLOAT
from compdbg.compiler.ops.quant import LIMITS, SMALLEST_SCALE, fake_quantized, fake_scales
from compdbg.compiler.ops.quant_kernel import tile_of
from compdbg.compiler.ops.reduced_norm_kernel import reduced_norm
from compdbg.compiler.ops.symmetric import EMPTY, Workspace, workspace


def all_reduce_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, ranks: str
) -> tuple[Tensor, Tensor]:
    space = workspace(x, ranks)
    if space is None:
        return reduced_norms.in_two(x, residual, weight, eps, style, ranks)
    out, total = x.new_empty(x.shape), x.new_empty(x.shape)
    launch(space, x, residual, weight, None, out, None, total, eps, style, 0)
    return out, total


def all_reduce_add_rms_norm_static_quant(  # noqa: PLR0913, PLR0917
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    scale: Tensor,
    eps: float,
    style: int,
    dtype: torch.dtype,
    ranks: str,
) -> tuple[Tensor, Tensor]:
    space = workspace(x, ranks)
    if space is None:
        return reduced_norms.static_in_two(x, residual, weight, scale, eps, style, dtype, ranks)
    out, total = fake_quantized(x, dtype), x.new_empty(x.shape)
    launch(space, x, residual, weight, scale, out, None, total, eps, style, 0)
    return out, total


def all_reduce_add_rms_norm_dynamic_quant(  # noqa: PLR0913, PLR0917
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    eps: float,
    style: int,
    group: int,
    dtype: torch.dtype,
    ranks: str,
) -> tuple[Tensor, Tensor, Tensor]:
    space = workspace(x, ranks)
    if space is None:
        return reduced_norms.dynamic_in_two(x, residual, weight, eps, style, group, dtype, ranks)
    out, scales, total = fake_quantized(x, dtype), fake_scales(x, group), x.new_empty(x.shape)
    launch(space, x, residual, weight, None, out, scales, total, eps, style, group)
    return out, scales, total


class How(NamedTuple):
    """Warps a program, and whether rows are sent twice."""

    warps: int
    two_shot: bool = False


def how(count: int, width_bytes: int, ranks: int) -> How:
    """The quickest for so many rows, as measured: fewer warps where few programs wait for each other."""
    each = 512 if count >= MANY_ROWS else 2048
    saved = count * width_bytes * (ranks - 1 - 2 * (ranks - 1) / ranks)
    return How(warps=max(4, min(32, width_bytes // each)), two_shot=saved > TWO_SHOT_SAVES)


MANY_ROWS = 32
TWO_SHOT_SAVES = 800_000
"""Bytes that a rank needs not send: they take as long as the second message."""


def launch(  # noqa: PLR0913, PLR0917
    space: Workspace,
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    scale: Tensor | None,
    out: Tensor,
    scales: Tensor | None,
    total: Tensor,
    eps: float,
    style: int,
    group: int,
    by: How | None = None,
) -> None:
    """Sum the rows of all ranks, and write what follows to `out`, `scales` and `total`."""
    x, residual = rows(x), rows(residual)
    count, width = x.shape
    if not count:
        return
    columns, groups = tile_of(width, group)
    limits = LIMITS.get(out.dtype)
    by = by or how(count, width * x.dtype.itemsize, space.ranks)
    reduced_norm[(count,)](
        x, residual, weight.contiguous(), scale, out, scales, total, space.places, space.turns,
        x.stride(0), residual.stride(0), eps,
        RANK=space.rank, RANKS=space.ranks, ROWS=space.rows, STRIDE=space.stride // x.dtype.itemsize,
        EMPTY=EMPTY[x.dtype], TWO_SHOT=by.two_shot,
        WIDTH=width, COLUMNS=columns, GROUPS=groups, WEIGHT_IN_FLOAT=style == WEIGHT_IN_FLOAT,
        QUANT=NO_QUANT if limits is None else STATIC if scale is not None else DYNAMIC,
        LOW=limits.low if limits else 0, HIGH=limits.high if limits else 0,
        ROUNDED=bool(limits and limits.rounded), SMALLEST=SMALLEST_SCALE,
        num_warps=by.warps,
    )  # fmt: skip
