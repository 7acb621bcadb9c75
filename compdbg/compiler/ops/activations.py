"""SiLU of the gate times the other half of a gated MLP, quantised."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from compdbg.compiler.ops.define import block, operator
from compdbg.compiler.ops.quant import fake_quantized, fake_scales, quantize_dynamic, quantize_static

_KERNELS = "compdbg.compiler.ops.activation_kernels"


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


activation = block("silu_mul(Tensor gate, Tensor up) -> Tensor", silu_mul)


def _static(gate: Tensor, up: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    return quantize_static(silu_mul(gate, up), scale, dtype)


def _dynamic(gate: Tensor, up: Tensor, group: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return quantize_dynamic(silu_mul(gate, up), group, dtype)


silu_mul_static_quant = operator(
    "silu_mul_static_quant(Tensor gate, Tensor up, Tensor scale, ScalarType dtype) -> Tensor",
    _static,
    lambda gate, up, scale, dtype: fake_quantized(gate, dtype),
    f"{_KERNELS}:silu_mul_static_quant",
)
silu_mul_dynamic_quant = operator(
    "silu_mul_dynamic_quant(Tensor gate, Tensor up, int group, ScalarType dtype) -> (Tensor, Tensor)",
    _dynamic,
    lambda gate, up, group, dtype: (fake_quantized(gate, dtype), fake_scales(gate, group)),
    f"{_KERNELS}:silu_mul_dynamic_quant",
)
