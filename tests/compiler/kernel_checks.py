"""Every fused kernel against float64: random, extreme, tiny and strided inputs, odd widths.

Runs on a GPU, or in Triton's interpreter (TRITON_INTERPRET=1) on a CPU: `python -m` this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from compdbg.compiler.ops import activation_kernels, norm_kernels
from compdbg.compiler.ops.quant import LIMITS

EPS = 1e-5
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
STEPS = {torch.float8_e4m3fn: 1 / 8, torch.int8: 1.0}
"""Distance of neighbours: relative to the value for floats, absolute for integers."""


def inputs(width: int, dtype: torch.dtype, device: str) -> Iterator[tuple[str, Tensor]]:
    torch.manual_seed(width)
    yield "random", torch.randn(3, width, device=device).to(dtype)
    yield "extreme", (torch.randn(3, width, device=device) * 1e4).to(dtype)
    yield "tiny", torch.cat((torch.randn(2, width) * 1e-6, torch.zeros(1, width))).to(device, dtype)
    yield "strided", torch.randn(3, 2 * width, device=device).to(dtype)[:, :width]
    yield "one row", torch.randn(1, width, device=device).to(dtype)


def norm64(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.double()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * weight.double()


def silu_mul64(gate: Tensor, up: Tensor) -> Tensor:
    wide = gate.double()
    return wide * torch.sigmoid(wide) * up.double()


def check_values(found: Tensor, wanted: Tensor, like: torch.dtype) -> None:
    tolerance = 1e-5 if like is torch.float32 else 2e-2
    torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance)


def check_quantized(found: Tensor, scale: Tensor, wanted: Tensor, like: torch.dtype, group: int = 0) -> None:
    """Each value, times its scale, is the right one to within a step and what the dtype itself loses."""
    limits = LIMITS[found.dtype]
    by = scale.double().repeat_interleave(group, -1) if group else scale.double()
    ideal = (wanted / by).clamp(limits.low, limits.high)
    step = STEPS[found.dtype] * (ideal.abs() if found.dtype.is_floating_point else torch.ones_like(ideal))
    lost = 1e-4 if like is torch.float32 else 2e-2
    allowed = step * 0.6 + lost * ideal.abs() + 2**-9 + step * (0 if like is torch.float32 else 0.5)
    wrong = (found.double() - ideal).abs() > allowed
    if INTERPRETED and found.dtype.is_floating_point:
        wrong &= ~_lost_carry(found.double(), ideal)
    assert not wrong.any(), (found.dtype, like, group, found[wrong][:5].double(), ideal[wrong][:5])


def _lost_carry(found: Tensor, ideal: Tensor) -> Tensor:
    """Triton's interpreter forgets the carry where a value is rounded up to a power of two."""
    power = 2.0 ** ideal.abs().clamp(min=1e-9).log2().round()
    return (found.abs() * 2 == power) & ((ideal.abs() / power) > 0.93)


def check_scales(scale: Tensor, wanted: Tensor, dtype: torch.dtype, like: torch.dtype, group: int) -> None:
    grouped = wanted.unflatten(-1, (-1, group)) if group else wanted.unsqueeze(-2)
    ideal = (grouped.abs().amax(-1) / LIMITS[dtype].high).clamp(min=1e-12)
    tolerance = 1e-5 if like is torch.float32 else 2e-2
    torch.testing.assert_close(scale.double(), ideal, rtol=tolerance, atol=1e-9)


def check_norms(device: str) -> None:
    for width, dtype in ((128, torch.float32), (384, torch.bfloat16), (200, torch.float16)):
        weight = (torch.randn(width, device=device).abs() + 0.5).to(dtype)
        for kind, x in inputs(width, dtype, device):
            residual = x.flip(-1) if kind == "strided" else torch.randn_like(x)
            total = (x.float() + residual.float()).to(dtype)
            for style in (0, 2):
                out, summed = norm_kernels.add_rms_norm(x, residual, weight, EPS, style)
                check_values(out, norm64(total, weight), dtype)
                torch.testing.assert_close(summed, total)
            check_norm_quant(x, residual, total, weight)


def check_norm_quant(x: Tensor, residual: Tensor, total: Tensor, weight: Tensor) -> None:
    scale = torch.tensor(0.02, device=x.device)
    for dtype in LIMITS:
        out = norm_kernels.rms_norm_static_quant(x, weight, scale, EPS, 0, dtype)
        check_quantized(out, scale, norm64(x, weight), x.dtype)
        out, summed = norm_kernels.add_rms_norm_static_quant(x, residual, weight, scale, EPS, 0, dtype)
        check_quantized(out, scale, norm64(total, weight), x.dtype)
        torch.testing.assert_close(summed, total)
        for group in (0, 128) if x.shape[-1] % 128 == 0 else (0,):
            out, scales = norm_kernels.rms_norm_dynamic_quant(x, weight, EPS, 0, group, dtype)
            check_quantized(out, scales, norm64(x, weight), x.dtype, group)
            check_scales(scales, norm64(x, weight), dtype, x.dtype, group)
            out, scales, summed = norm_kernels.add_rms_norm_dynamic_quant(
                x, residual, weight, EPS, 0, group, dtype
            )
            check_quantized(out, scales, norm64(total, weight), x.dtype, group)
            torch.testing.assert_close(summed, total)


def check_activations(device: str) -> None:
    for width, dtype in ((128, torch.float32), (384, torch.bfloat16), (200, torch.float16)):
        for kind, x in inputs(width, dtype, device):
            if kind == "tiny" and dtype is torch.float16:
                continue  # the product is less than the type can hold
            gate = x / 1e3 if kind == "extreme" else x
            up = torch.randn_like(gate)
            wanted = silu_mul64(gate, up)
            scale = torch.tensor(0.05, device=device)
            for to in LIMITS:
                out = activation_kernels.silu_mul_static_quant(gate, up, scale, to)
                check_quantized(out, scale, wanted, dtype)
                for group in (0, 128) if width % 128 == 0 else (0,):
                    out, scales = activation_kernels.silu_mul_dynamic_quant(gate, up, group, to)
                    check_quantized(out, scales, wanted, dtype, group)
                    check_scales(scales, wanted, to, dtype, group)


CHECKS = {"norms": check_norms, "activations": check_activations}


def main() -> None:
    for name in sys.argv[1:] or CHECKS:
        CHECKS[name]("cuda" if torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    main()
