"""RMSNorm with what stands around it: the sum with the residual before, quantisation after."""

from __future__ import annotations

import torch
from torch import Tensor

from compdbg.compiler.ops.define import block, operator
from compdbg.compiler.ops.quant import fake_quantized, fake_scales, quantize_dynamic, quantize_static

_KERNELS = "compdbg.compiler.ops.norm_kernels"

WEIGHT_FIRST, WEIGHT_LAST, WEIGHT_IN_FLOAT = STYLES = (0, 1, 2)
"""How a model writes it: `weight * x.to(dtype)`, `x.to(dtype) * weight`, or cast last (`F.rms_norm`)."""


def rms_norm(x: Tensor, weight: Tensor, eps: float, style: int = WEIGHT_FIRST) -> Tensor:
    """Rows of unit mean square, worked out in float32."""
    wide = x.float()
    if style == WEIGHT_IN_FLOAT:
        mean = torch.ops.aten.mean.dim(wide.pow(2), [x.dim() - 1], True)
        return (wide * torch.rsqrt(torch.ops.aten.add.Scalar(mean, eps)) * weight).to(x.dtype)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype) if style == WEIGHT_FIRST else wide.to(x.dtype) * weight


norm = block("rms_norm(Tensor x, Tensor weight, float eps, int style) -> Tensor", rms_norm)


def _static(x: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int, dtype: torch.dtype) -> Tensor:
    return quantize_static(rms_norm(x, weight, eps, style), scale, dtype)


def _dynamic(
    x: Tensor, weight: Tensor, eps: float, style: int, group: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    return quantize_dynamic(rms_norm(x, weight, eps, style), group, dtype)


def _add(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int) -> tuple[Tensor, Tensor]:
    total = x + residual
    return rms_norm(total, weight, eps, style), total


def _add_static(
    x: Tensor, residual: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    total = x + residual
    return _static(total, weight, scale, eps, style, dtype), total


def _add_dynamic(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, group: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    total = x + residual
    return (*_dynamic(total, weight, eps, style, group, dtype), total)


rms_norm_static_quant = operator(
    "rms_norm_static_quant(Tensor x, Tensor weight, Tensor scale, float eps, int style, ScalarType dtype)"
    " -> Tensor",
    _static,
    lambda x, weight, scale, eps, style, dtype: fake_quantized(x, dtype),
    f"{_KERNELS}:rms_norm_static_quant",
)
rms_norm_dynamic_quant = operator(
    "rms_norm_dynamic_quant(Tensor x, Tensor weight, float eps, int style, int group, ScalarType dtype)"
    " -> (Tensor, Tensor)",
    _dynamic,
    lambda x, weight, eps, style, group, dtype: (fake_quantized(x, dtype), fake_scales(x, group)),
    f"{_KERNELS}:rms_norm_dynamic_quant",
)
add_rms_norm = operator(
    "add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps, int style) -> (Tensor, Tensor)",
    _add,
    lambda x, residual, weight, eps, style: (x.new_empty(x.shape), x.new_empty(x.shape)),
    f"{_KERNELS}:add_rms_norm",
)
add_rms_norm_static_quant = operator(
    "add_rms_norm_static_quant(Tensor x, Tensor residual, Tensor weight, Tensor scale, float eps, int style,"
    " ScalarType dtype) -> (Tensor, Tensor)",
    _add_static,
    lambda x, residual, weight, scale, eps, style, dtype: (fake_quantized(x, dtype), x.new_empty(x.shape)),
    f"{_KERNELS}:add_rms_norm_static_quant",
)
add_rms_norm_dynamic_quant = operator(
    "add_rms_norm_dynamic_quant(Tensor x, Tensor residual, Tensor weight, float eps, int style, int group,"
    " ScalarType dtype) -> (Tensor, Tensor, Tensor)",
    _add_dynamic,
    lambda x, residual, weight, eps, style, group, dtype: (
        fake_quantized(x, dtype),
        fake_scales(x, group),
        x.new_empty(x.shape),
    ),
    f"{_KERNELS}:add_rms_norm_dynamic_quant",
)
