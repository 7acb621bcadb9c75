"""Quantisation in plain PyTorch, as models write it and patterns look for it.

Each function gives integers or 8-bit floats, and the scales that were worked out. Multiplied by
its scale, a value is what was quantised.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from compdbg.compiler.ops.define import block

GROUP = 128
"""Columns that share a scale, where a row has several."""
SMALLEST_SCALE = 1e-12


class Limits(NamedTuple):
    """The largest and smallest value of a dtype, and whether values are rounded before the cast."""

    low: int
    high: int
    rounded: bool


LIMITS = {
    torch.float8_e4m3fn: Limits(-448, 448, False),
    torch.int8: Limits(-128, 127, True),
}


def quantize_static(x: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """With one scale that was known before."""
    return _cast(x.float() / scale, dtype)


def quantize_per_token(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """With a scale a row: the row's largest value becomes the largest of the dtype."""
    scale = _scale_of(x, dtype)
    return _cast(x.float() / scale, dtype), scale


def quantize_per_group(x: Tensor, dtype: torch.dtype, group: int = GROUP) -> tuple[Tensor, Tensor]:
    """With a scale for each `group` columns of a row."""
    grouped = x.unflatten(-1, (-1, group))
    scale = _scale_of(grouped, dtype)
    return _cast(grouped.float() / scale, dtype).flatten(-2), scale.squeeze(-1)


def dequantize(x: Tensor, scale: Tensor, group: int = 0) -> Tensor:
    """The values that were quantised, in float32; `group` columns share one of `scale`."""
    if not group:
        return x.float() * scale
    return (x.float().unflatten(-1, (-1, group)) * scale.unsqueeze(-1)).flatten(-2)


def _scale_of(x: Tensor, dtype: torch.dtype) -> Tensor:
    largest = x.abs().amax(-1, keepdim=True).float()
    return (largest / LIMITS[dtype].high).clamp(min=SMALLEST_SCALE)


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    limits = LIMITS[dtype]
    x = x.round() if limits.rounded else x
    return x.clamp(limits.low, limits.high).to(dtype)


def fake_quantized(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.new_empty(x.shape, dtype=dtype)


def fake_scales(x: Tensor, group: int) -> Tensor:
    """Scales for rows of `x`: one a row, or one for `group` columns."""
    return x.new_empty((*x.shape[:-1], x.shape[-1] // group if group else 1), dtype=torch.float32)


def quantize_dynamic(x: Tensor, group: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """With scales worked out: one a row, or one for `group` columns of a row."""
    return quantize_per_group(x, dtype, group) if group else quantize_per_token(x, dtype)


static_quant = block("static_quant(Tensor x, Tensor scale, ScalarType dtype) -> Tensor", quantize_static)
dynamic_quant = block(
    "dynamic_quant(Tensor x, int group, ScalarType dtype) -> (Tensor, Tensor)", quantize_dynamic
)
