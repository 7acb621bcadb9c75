"""The sum over ranks, the sum with the residual, RMSNorm and quantisation as one operator.

On a GPU one kernel does it all through memory that ranks share. Elsewhere, and where ranks can't share
memory, the process group's own all-reduce (NCCL, gloo) comes first, and all that follows is one kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor

from compdbg.compiler.ops import norms
from compdbg.compiler.ops.define import operator
from compdbg.compiler.ops.quant import fake_quantized, fake_scales

_KERNELS = "compdbg.compiler.ops.reduced_kernels"


def reduced(x: Tensor, ranks: str) -> Tensor:
    """The sum of `x` over the ranks of a group, as a model's `all_reduce` stands in its graph."""
    return torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", ranks))


def in_two(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, ranks: str
) -> tuple[Tensor, Tensor]:
    """The sum over ranks, and the rest after it."""
    found: tuple[Tensor, Tensor] = norms.add_rms_norm(reduced(x, ranks), residual, weight, eps, style)
    return found


def static_in_two(  # noqa: PLR0913, PLR0917
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    scale: Tensor,
    eps: float,
    style: int,
    dtype: torch.dtype,
    ranks: str,
) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = norms.add_rms_norm_static_quant(
        reduced(x, ranks), residual, weight, scale, eps, style, dtype
    )
    return found


def dynamic_in_two(  # noqa: PLR0913, PLR0917
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    eps: float,
    style: int,
    group: int,
    dtype: torch.dtype,
    ranks: str,
) -> tuple[Tensor, Tensor, Tensor]:
    found: tuple[Tensor, Tensor, Tensor] = norms.add_rms_norm_dynamic_quant(
        reduced(x, ranks), residual, weight, eps, style, group, dtype
    )
    return found


all_reduce_add_rms_norm = operator(
    "all_reduce_add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps, int style, str ranks)"
    " -> (Tensor, Tensor)",
    in_two,
    lambda x, *_: (x.new_empty(x.shape), x.new_empty(x.shape)),
    f"{_KERNELS}:all_reduce_add_rms_norm",
)
all_reduce_add_rms_norm_static_quant = operator(
    "all_reduce_add_rms_norm_static_quant(Tensor x, Tensor residual, Tensor weight, Tensor scale, float eps,"
    " int style, ScalarType dtype, str ranks) -> (Tensor, Tensor)",
    static_in_two,
    lambda x, residual, weight, scale, eps, style, dtype, ranks: (
        fake_quantized(x, dtype),
        x.new_empty(x.shape),
    ),
    f"{_KERNELS}:all_reduce_add_rms_norm_static_quant",
)
all_reduce_add_rms_norm_dynamic_quant = operator(
    "all_reduce_add_rms_norm_dynamic_quant(Tensor x, Tensor residual, Tensor weight, float eps, int style,"
    " int group, ScalarType dtype, str ranks) -> (Tensor, Tensor, Tensor)",
    dynamic_in_two,
    lambda x, residual, weight, eps, style, group, dtype, ranks: (
        fake_quantized(x, dtype),
        fake_scales(x, group),
        x.new_empty(x.shape),
    ),
    f"{_KERNELS}:all_reduce_add_rms_norm_dynamic_quant",
)
