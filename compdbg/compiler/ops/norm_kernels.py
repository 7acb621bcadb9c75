"""RMSNorm, with the residual before it and quantisation after it, as one Triton kernel.

A program has whole rows in its registers: what is read is read once.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from compdbg.compiler.ops.layouts import Layout, whole_rows
from compdbg.compiler.ops.norms import WEIGHT_IN_FLOAT
from compdbg.compiler.ops.quant import LIMITS, SMALLEST_SCALE
from compdbg.compiler.ops.quant_kernel import lines_of, quantized_lines

NO_QUANT, STATIC, DYNAMIC = 0, 1, 2


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int
) -> tuple[Tensor, Tensor]:
    out, total = x.new_empty(x.shape), x.new_empty(x.shape)
    launch(x, residual, weight, None, out, None, total, eps, style, 0)
    return out, total


def rms_norm_static_quant(
    x: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int, dtype: torch.dtype
) -> Tensor:
    out = x.new_empty(x.shape, dtype=dtype)
    launch(x, None, weight, scale, out, None, None, eps, style, 0)
    return out


def rms_norm_dynamic_quant(
    x: Tensor, weight: Tensor, eps: float, style: int, group: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    out, scales = _outputs(x, group, dtype)
    launch(x, None, weight, None, out, scales, None, eps, style, group)
    return out, scales


def add_rms_norm_static_quant(
    x: Tensor, residual: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    out, total = x.new_empty(x.shape, dtype=dtype), x.new_empty(x.shape)
    launch(x, residual, weight, scale, out, None, total, eps, style, 0)
    return out, total


def add_rms_norm_dynamic_quant(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, group: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    out, scales = _outputs(x, group, dtype)
    total = x.new_empty(x.shape)
    launch(x, residual, weight, None, out, scales, total, eps, style, group)
    return out, scales, total


def _outputs(x: Tensor, group: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    scales = x.new_empty((*x.shape[:-1], x.shape[-1] // group if group else 1), dtype=torch.float32)
    return x.new_empty(x.shape, dtype=dtype), scales


def rows(x: Tensor) -> Tensor:
    """As (rows, width), each row's values side by side."""
    flat = x.reshape(-1, x.shape[-1])
    return flat if flat.stride(-1) == 1 else flat.contiguous()


def launch(  # noqa: PLR0913, PLR0917
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor,
    scale: Tensor | None,
    out: Tensor,
    scales: Tensor | None,
    total: Tensor | None,
    eps: float,
    style: int,
    group: int,
    layout: Layout | None = None,
) -> None:
    """Write to `out`, and where they are given to `scales` and `total`."""
    x = rows(x)
    residual = None if residual is None else rows(residual)
    count, width = x.shape
    limits = LIMITS.get(out.dtype)
    if not count:
        return
    layout = layout or whole_rows(count, width, x.device)
    columns, groups = lines_of(layout.columns, group)
    together = 1 if groups > 1 else layout.rows
    _rms_norm[(triton.cdiv(count, together),)](
        x, residual, weight.contiguous(), scale, out, scales, total,
        x.stride(0), 0 if residual is None else residual.stride(0), count, eps,
        WIDTH=width, COLUMNS=columns, GROUPS=groups, ROWS=together, GROUPED=group > 0,
        WEIGHT_IN_FLOAT=style == WEIGHT_IN_FLOAT, RESIDUAL=residual is not None,
        QUANT=NO_QUANT if limits is None else STATIC if scale is not None else DYNAMIC,
        LOW=limits.low if limits else 0, HIGH=limits.high if limits else 0,
        ROUNDED=bool(limits and limits.rounded), SMALLEST=SMALLEST_SCALE,
        num_warps=layout.warps,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _rms_norm(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    x, residual, weight, scale, out, scales, total, x_stride, residual_stride, count, eps,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr,
    GROUPED: tl.constexpr, WEIGHT_IN_FLOAT: tl.constexpr, RESIDUAL: tl.constexpr, QUANT: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, ROUNDED: tl.constexpr, SMALLEST: tl.constexpr,
) -> Any:  # fmt: skip
    line = tl.arange(0, ROWS * GROUPS)[:, None]
    row = tl.program_id(0).to(tl.int64) * ROWS + line // GROUPS
    first = (line % GROUPS) * COLUMNS
    column = first + tl.arange(0, COLUMNS)[None, :]
    inside = column < WIDTH
    there = (first < WIDTH) & (row < count)
    by = tl.load(weight + column, mask=inside, other=0.0, eviction_policy="evict_last")
    if ROWS > 1:
        inside &= row < count
    value = tl.load(x + row * x_stride + column, mask=inside, other=0.0, eviction_policy="evict_first")
    dtype = value.dtype
    if RESIDUAL:
        other = tl.load(
            residual + row * residual_stride + column, mask=inside, other=0.0, eviction_policy="evict_first"
        )
        value = (value.to(tl.float32) + other.to(tl.float32)).to(dtype)
        tl.store(total + row * WIDTH + column, value, mask=inside)
    wide = value.to(tl.float32)
    squares = tl.sum(wide * wide, 1, keep_dims=True)
    if GROUPS > 1:
        squares = tl.sum(squares, 0, keep_dims=True)
    wide = wide * (1.0 / tl.sqrt_rn(squares / WIDTH + eps))
    factor = wide if WEIGHT_IN_FLOAT else wide.to(dtype)
    result = (factor.to(tl.float32) * by.to(tl.float32)).to(dtype)
    if QUANT == 0:
        tl.store(out + row * WIDTH + column, result, mask=inside)
    else:
        quantized_lines(
            result.to(tl.float32), row, first, column, inside, there, scale, out, scales,
            WIDTH, COLUMNS, GROUPED, QUANT, LOW, HIGH, ROUNDED, SMALLEST,
        )  # fmt: skip
