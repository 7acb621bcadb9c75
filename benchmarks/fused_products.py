"""Products in FP8 beside bf16's, at the model's shapes."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.decode_step import relative_error
from benchmarks.graph_timing import timed_calls
from compdbg.compiler.ops.quant import quantize_per_token
from fixtures.models import SIZES

Row = dict[str, Any]


def products(run: Any) -> Row:
    """Products in FP8 beside bf16's, at the model's shapes: microseconds, and how far from float64."""
    device, found = run.options.device, {}
    shape = SIZES["toy" if run.small else "700m"]
    widths = [(shape.width, shape.width), (shape.ffn, shape.width), (shape.width, shape.ffn)]
    for n in [3] if run.small else [1, 8, 64, 256]:
        for inputs, outputs in widths:
            x = torch.randn(n, inputs, device=device)
            weight = torch.randn(outputs, inputs, device=device) / inputs**0.5
            found[f"{n}x{inputs}x{outputs}"] = product_times(x, weight, device)
            print(n, inputs, outputs, found[f"{n}x{inputs}x{outputs}"], flush=True)
            run.keep("products", found)
    return found


def product_times(x: torch.Tensor, weight: torch.Tensor, device: str) -> Row:
    to = torch.float8_e4m3fn
    (a, by), (b, weight_by) = quantize_per_token(x, to), quantize_per_token(weight, to)
    right = (a.double() * by.double()) @ (b.double() * weight_by.double()).t()
    low = x.to(torch.bfloat16), weight.to(torch.bfloat16).t()

    def ours(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.ops.fixtures.scaled_mm(x, weight, by, weight_by, 0, torch.bfloat16)

    def one_scale(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(x, weight.t(), scale, scale, out_dtype=torch.bfloat16, use_fast_accum=True)

    scale = torch.ones((), device=device)
    copies = [(a, b.clone()) for _ in range(20)]  # together more than the cache holds
    plain = [(low[0], low[1].clone()) for _ in range(20)]
    return {
        "fp8": timed_calls(ours, copies, 40, device),
        "fp8, one scale": timed_calls(one_scale, copies, 40, device) if device == "cuda" else None,
        "bf16": timed_calls(torch.mm, plain, 40, device),
        "error": relative_error(ours(a, b), right),
    }
