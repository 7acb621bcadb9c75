"""SiLU·Mul with quantisation as one Triton kernel.

A program has a block of a row's columns; all of them, where the whole row shares a scale.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from compdbg.compiler.ops.layouts import Layout, blocks_of_rows, whole_rows
from compdbg.compiler.ops.norm_kernels import DYNAMIC, STATIC, rows
from compdbg.compiler.ops.quant import LIMITS, SMALLEST_SCALE
from compdbg.compiler.ops.quant_kernel import lines_of, quantized_lines, rounded_product


def silu_mul_static_quant(gate: Tensor, up: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    out = gate.new_empty(gate.shape, dtype=dtype)
    launch(gate, up, scale, out, None, 0)
    return out


def silu_mul_dynamic_quant(gate: Tensor, up: Tensor, group: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    out = gate.new_empty(gate.shape, dtype=dtype)
    count = gate.shape[-1] // group if group else 1
    scales = gate.new_empty((*gate.shape[:-1], count), dtype=torch.float32)
    launch(gate, up, None, out, scales, group)
    return out, scales


def launch(
    gate: Tensor,
    up: Tensor,
    scale: Tensor | None,
    out: Tensor,
    scales: Tensor | None,
    group: int,
    layout: Layout | None = None,
) -> None:
    """Write to `out`, and to `scales` where they are worked out."""
    gate, up = rows(gate), rows(up)
    count, width = gate.shape
    if not count:
        return
    limits = LIMITS[out.dtype]
    whole = scale is None and not group
    layout = layout or (whole_rows if whole else blocks_of_rows)(count, width, gate.device)
    columns, groups = lines_of(layout.columns, group)
    together = 1 if groups > 1 else layout.rows
    _silu_mul[(triton.cdiv(count, together), triton.cdiv(width, columns * groups))](
        gate, up, scale, out, scales, gate.stride(0), up.stride(0), count,
        WIDTH=width, COLUMNS=columns, GROUPS=groups, ROWS=together, GROUPED=group > 0,
        QUANT=DYNAMIC if scale is None else STATIC, LOW=limits.low, HIGH=limits.high,
        ROUNDED=limits.rounded, SMALLEST=SMALLEST_SCALE, num_warps=layout.warps,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _silu_mul(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    gate, up, scale, out, scales, gate_stride, up_stride, count,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr,
    GROUPED: tl.constexpr, QUANT: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr,
    ROUNDED: tl.constexpr, SMALLEST: tl.constexpr,
) -> Any:  # fmt: skip
    line = tl.arange(0, ROWS * GROUPS)[:, None]
    row = tl.program_id(0).to(tl.int64) * ROWS + line // GROUPS
    first = (tl.program_id(1) * GROUPS + line % GROUPS) * COLUMNS
    column = first + tl.arange(0, COLUMNS)[None, :]
    inside = column < WIDTH
    there = (first < WIDTH) & (row < count)
    if ROWS > 1:
        inside &= row < count
    g = tl.load(gate + row * gate_stride + column, mask=inside, other=0.0, eviction_policy="evict_first")
    u = tl.load(up + row * up_stride + column, mask=inside, other=0.0, eviction_policy="evict_first")
    dtype = g.dtype
    wide = g.to(tl.float32)
    activated = (wide / (1.0 + tl.exp(-wide))).to(dtype)
    quantized_lines(
        rounded_product(activated, u).to(tl.float32), row, first, column, inside, there, scale, out, scales,
        WIDTH, COLUMNS, GROUPED, QUANT, LOW, HIGH, ROUNDED, SMALLEST,
    )  # fmt: skip
