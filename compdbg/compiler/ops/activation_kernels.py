"""SiLU·Mul with quantisation as one Triton kernel: a row a program."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from compdbg.compiler.ops.norm_kernels import DYNAMIC, STATIC, rows
from compdbg.compiler.ops.quant import LIMITS, SMALLEST_SCALE
from compdbg.compiler.ops.quant_kernel import quantized_tile, tile_of


def silu_mul_static_quant(gate: Tensor, up: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    out = gate.new_empty(gate.shape, dtype=dtype)
    _launch(gate, up, scale, out, None, 0)
    return out


def silu_mul_dynamic_quant(gate: Tensor, up: Tensor, group: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    out = gate.new_empty(gate.shape, dtype=dtype)
    count = gate.shape[-1] // group if group else 1
    scales = gate.new_empty((*gate.shape[:-1], count), dtype=torch.float32)
    _launch(gate, up, None, out, scales, group)
    return out, scales


def _launch(
    gate: Tensor, up: Tensor, scale: Tensor | None, out: Tensor, scales: Tensor | None, group: int
) -> None:
    gate, up = rows(gate), rows(up)
    if not gate.shape[0]:
        return
    width = gate.shape[-1]
    limits = LIMITS[out.dtype]
    columns, groups = tile_of(width, group)
    _silu_mul[(gate.shape[0],)](
        gate, up, scale, out, scales, gate.stride(0), up.stride(0),
        WIDTH=width, COLUMNS=columns, GROUPS=groups, QUANT=DYNAMIC if scale is None else STATIC,
        LOW=limits.low, HIGH=limits.high, ROUNDED=limits.rounded, SMALLEST=SMALLEST_SCALE,
        num_warps=8 if width > 2048 else 4,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _silu_mul(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    gate, up, scale, out, scales, gate_stride, up_stride,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, GROUPS: tl.constexpr, QUANT: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, ROUNDED: tl.constexpr, SMALLEST: tl.constexpr,
) -> Any:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, GROUPS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = column < WIDTH
    g = tl.load(gate + row * gate_stride + column, mask=inside, other=0.0)
    u = tl.load(up + row * up_stride + column, mask=inside, other=0.0)
    dtype = g.dtype
    wide = g.to(tl.float32)
    activated = (wide / (1.0 + tl.exp(-wide))).to(dtype).to(tl.float32)
    product = (activated * u.to(tl.float32)).to(dtype).to(tl.float32)
    quantized_tile(
        product, row, column, inside, scale, out, scales,
        WIDTH, COLUMNS, GROUPS, QUANT, LOW, HIGH, ROUNDED, SMALLEST,
    )  # fmt: skip
