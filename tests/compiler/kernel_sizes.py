"""Every fused kernel at many sizes against float64: all layouts, odd rows, widths and heads."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from compdbg.compiler.ops import activation_kernels, norm_kernels, rope_kernels
from tests.compiler.kernel_checks import (
    EPS,
    INTERPRETED,
    angles,
    check_cache,
    check_norm_rope,
    check_quantized,
    check_scales,
    check_turned,
    check_values,
    norm64,
    rotated64,
    silu_mul64,
)

FP8, INT8 = torch.float8_e4m3fn, torch.int8
ROWS = (1, 7, 33) if INTERPRETED else (1, 2, 3, 7, 17, 64, 129, 300, 1100)
WIDTHS = (128, 333) if INTERPRETED else (128, 333, 2048, 5632, 8192)
HEADS = ((6, 3, 48),) if INTERPRETED else ((6, 3, 48), (16, 4, 128), (32, 8, 64), (5, 1, 80))


def sizes() -> Iterator[tuple[int, int, torch.dtype]]:
    for width in WIDTHS:
        for i, rows in enumerate(ROWS):
            yield rows, width, (torch.bfloat16, torch.float16)[i % 2]


def padded_rows(rows: int, width: int, dtype: torch.dtype, device: str) -> Tensor:
    """Rows that are not next to each other, the last of zeros."""
    whole = torch.randn(rows, width + 8, device=device).to(dtype)
    whole[rows - 1 :] = 0 if rows > 1 else 1
    return whole[:, :width]


def check_norm_sizes(device: str) -> None:
    scale = torch.tensor(0.02, device=device)
    for rows, width, dtype in sizes():
        torch.manual_seed(rows)
        x, residual = (padded_rows(rows, width, dtype, device) for _ in range(2))
        weight = (torch.rand(width, device=device) + 0.5).to(dtype)
        total = (x.float() + residual.float()).to(dtype)
        wanted, wanted_total = norm64(x, weight), norm64(total, weight)
        out, summed = norm_kernels.add_rms_norm(x, residual, weight, EPS, 0)
        check_values(out, wanted_total, dtype)
        torch.testing.assert_close(summed, total)
        check_quantized(
            norm_kernels.rms_norm_static_quant(x, weight, scale, EPS, 0, FP8), scale, wanted, dtype
        )
        for group, to in ((0, INT8), (0, FP8), *([(128, FP8)] if width % 128 == 0 else [])):
            out, scales, summed = norm_kernels.add_rms_norm_dynamic_quant(
                x, residual, weight, EPS, 0, group, to
            )
            check_quantized(out, scales, wanted_total, dtype, group)
            check_scales(scales, wanted_total, to, dtype, group)
            torch.testing.assert_close(summed, total)


def check_activation_sizes(device: str) -> None:
    scale = torch.tensor(0.05, device=device)
    for rows, width, dtype in sizes():
        torch.manual_seed(rows)
        gate, up = (padded_rows(rows, width, dtype, device) for _ in range(2))
        wanted = silu_mul64(gate, up)
        for to in (FP8, INT8):
            out = activation_kernels.silu_mul_static_quant(gate, up, scale, to)
            check_quantized(out, scale, wanted, dtype)
        for group in (0, 128) if width % 128 == 0 else (0,):
            out, scales = activation_kernels.silu_mul_dynamic_quant(gate, up, group, FP8)
            check_quantized(out, scales, wanted, dtype, group)
            check_scales(scales, wanted, FP8, dtype, group)
    check_what_overflows(device)


def check_what_overflows(device: str) -> None:
    """What a half type can't hold is infinite, and as large as 8 bits can hold once it is quantised."""
    big = torch.full((2, 256), 6e4, device=device).to(torch.float16)
    big[1] = -big[1]
    big[1, 0] = 6e4
    out = activation_kernels.silu_mul_static_quant(big.abs(), big, torch.tensor(0.05, device=device), FP8)
    assert (out[0].float() == 448).all()
    assert (out[1, 1:].float() == -448).all()
    if INTERPRETED:
        return  # a NaN becomes a number there
    nothing = torch.full((1, 256), float("nan"), device=device).to(torch.float16)
    out = activation_kernels.silu_mul_static_quant(nothing, nothing, torch.tensor(0.05, device=device), FP8)
    assert out.float().isnan().all()


def check_rope_sizes(device: str) -> None:
    for heads, kv_heads, head_dim in HEADS:
        for i, tokens in enumerate(ROWS):
            dtype = (torch.bfloat16, torch.float16)[i % 2]
            torch.manual_seed(tokens)
            counts = [heads, kv_heads, kv_heads]
            merged = torch.randn(tokens, sum(counts), head_dim, device=device).to(dtype)
            query, key, value = merged.split(counts, 1)
            interleaved = i % 3 == 0
            cos, sin = angles(tokens, head_dim, dtype, interleaved, device)
            check_norm_rope(query, key, cos, sin, interleaved)
            if tokens == 3:
                check_cache(query, key, value, cos, sin, interleaved)
            check_stored(query, key, value, (cos, sin), interleaved)


def check_stored(
    query: Tensor, key: Tensor, value: Tensor, by: tuple[Tensor, Tensor], interleaved: bool
) -> None:
    """Rows in slots in some order, and one that goes nowhere."""
    tokens = key.shape[0]
    slots = torch.randperm(tokens, device=key.device) + 16
    slots[tokens // 2] = -1
    cache = torch.zeros(2, tokens // 16 + 2, 16, *key.shape[1:], device=key.device, dtype=key.dtype)
    out = rope_kernels.rotate_both_update_kv_cache(query, key, value, *by, cache, slots, interleaved)
    check_turned(out, rotated64(query, *by, interleaved), query.dtype)
    kept = slots >= 0
    wanted = torch.zeros(2, *cache.flatten(1, 2).shape[1:], device=key.device, dtype=torch.float64)
    wanted[0, slots[kept]] = rotated64(key, *by, interleaved)[kept]
    wanted[1, slots[kept]] = value[kept].double()
    check_turned(cache.flatten(1, 2), wanted, key.dtype)


CHECKS = {
    "norm sizes": check_norm_sizes,
    "activation sizes": check_activation_sizes,
    "rope sizes": check_rope_sizes,
}
