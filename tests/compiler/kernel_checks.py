"""Every fused kernel against float64: random, extreme, tiny and strided inputs, odd widths.

Runs on a GPU, or in Triton's interpreter (TRITON_INTERPRET=1) on a CPU: `python -m` this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from compdbg.compiler.ops import activation_kernels, norm_kernels, rope_kernels
from compdbg.compiler.ops.quant import LIMITS
from fixtures.models.metadata import AttentionMetadata, metadata_of

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


def check_turned(found: Tensor, wanted: Tensor, like: torch.dtype) -> None:
    """Sums of two products: what is rounded away is a part of a head's largest value, not of the sum."""
    steps = 4 if INTERPRETED else 2  # the interpreter cuts off what it should round
    lost = 1e-5 if like is torch.float32 else steps * torch.finfo(like).eps
    wrong = (found.double() - wanted).abs() > lost * wanted.abs().amax(-1, keepdim=True)
    assert not wrong.any(), (like, found[wrong][:5].double(), wanted[wrong][:5])


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


def rotated64(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """By complex numbers: pairs of columns times cos + i sin."""
    x, cos, sin = x.double(), cos.double(), sin.double()
    if interleaved:
        pairs, by = torch.complex(x[..., ::2], x[..., 1::2]), torch.complex(cos[..., ::2], sin[..., ::2])
        return torch.view_as_real(pairs * by).flatten(-2)
    half = x.shape[-1] // 2
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.complex(cos[..., :half], sin[..., :half])
    return torch.cat((turned.real, turned.imag), -1)


def angles(tokens: int, head_dim: int, dtype: torch.dtype, interleaved: bool, device: str) -> list[Tensor]:
    angle = torch.rand(tokens, 1, head_dim // 2, device=device) * 6
    angle = angle.repeat_interleave(2, -1) if interleaved else torch.cat((angle, angle), -1)
    return [angle.cos().to(dtype), angle.sin().to(dtype)]


def check_rope(device: str) -> None:
    cases = ((torch.float32, 4, 2, 16), (torch.bfloat16, 8, 1, 80), (torch.float16, 2, 2, 64))
    for dtype, heads, kv_heads, head_dim in cases:
        torch.manual_seed(head_dim)
        inner = (heads + 2 * kv_heads) * head_dim
        merged = torch.randn(3, inner, device=device).to(dtype)
        sizes = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
        query, key, value = (part.unflatten(-1, (-1, head_dim)) for part in merged.split(sizes, -1))
        for interleaved in (False, True):
            cos, sin = angles(3, head_dim, dtype, interleaved, device)
            check_norm_rope(query, key, cos, sin, interleaved)
            check_cache(query, key, value, cos, sin, interleaved)


def check_norm_rope(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> None:
    weights = [(torch.randn(query.shape[-1], device=query.device).abs() + 0.5).to(query.dtype) for _ in "qk"]
    wanted = [
        rotated64(norm64(x, weight), cos, sin, interleaved)
        for x, weight in zip((query, key), weights, strict=True)
    ]
    for style in (0, 2):
        alone = rope_kernels.norm_rotate(query, weights[0], cos, sin, EPS, style, interleaved)
        check_turned(alone, wanted[0], query.dtype)
        both = rope_kernels.norm_rotate_both(query, key, *weights, cos, sin, EPS, style, interleaved)
        for found, right in zip(both, wanted, strict=True):
            check_turned(found, right, query.dtype)


def check_cache(
    query: Tensor, key: Tensor, value: Tensor, cos: Tensor, sin: Tensor, interleaved: bool
) -> None:
    """Rows go to their slots, nothing else is touched, and a slot of -1 goes nowhere."""
    slots = torch.tensor([5, -1, 33], device=query.device)
    before = torch.randn(2, 3, 16, *key.shape[1:], device=query.device).to(query.dtype)
    wanted = before.double()
    for half, rows in zip(wanted, (rotated64(key, cos, sin, interleaved), value.double()), strict=True):
        half.flatten(0, 1)[slots[[0, 2]]] = rows[[0, 2]]
    cache = before.clone()
    rope_kernels.rotate_update_kv_cache(key, value, cos, sin, cache, slots, interleaved)
    check_turned(cache, wanted, query.dtype)
    cache = before.clone()
    out = rope_kernels.rotate_both_update_kv_cache(query, key, value, cos, sin, cache, slots, interleaved)
    check_turned(cache, wanted, query.dtype)
    check_turned(out, rotated64(query, cos, sin, interleaved), query.dtype)
    cache = before.clone()
    rope_kernels.update_kv_cache(key, value, cache, slots)
    plain = before.clone()
    plain[0].flatten(0, 1)[slots[[0, 2]]], plain[1].flatten(0, 1)[slots[[0, 2]]] = key[[0, 2]], value[[0, 2]]
    torch.testing.assert_close(cache, plain, rtol=0, atol=0)


def check_attention(device: str) -> None:
    """Attention over a cache that is full already, as it is and quantised."""
    from fixtures.models.attention_kernels import triton_cached_attention

    torch.manual_seed(0)
    metadata = metadata_of([(2, 1, [2]), (69, 1, [3, 4, 5, 6, 7]), (15, 2, [1, 9])], 6, device)
    for dtype, heads, kv_heads, head_dim in ((torch.float32, 4, 2, 16), (torch.float16, 8, 1, 32)):
        query = torch.randn(4, heads, head_dim, device=device).to(dtype)
        cache = torch.randn(2, 10, 16, kv_heads, head_dim, device=device).to(dtype)
        wanted = attention64(query, cache, metadata, 0.25)
        out = torch.empty_like(query)
        triton_cached_attention(query, out, cache, metadata, 0.25)
        check_values(out, wanted, dtype)
        scale = torch.tensor(0.01, device=device)
        for to in LIMITS:
            out = torch.empty_like(query, dtype=to)
            triton_cached_attention(query, out, cache, metadata, 0.25, scale)
            check_quantized(out, scale, wanted, dtype)


def attention64(query: Tensor, cache: Tensor, metadata: AttentionMetadata, scale: float) -> Tensor:
    rows = []
    for token, length in enumerate(metadata.lengths.tolist()):
        blocks = metadata.block_table[metadata.sequence[token]].long()
        keys, values = (half[blocks].flatten(0, 1)[:length].double() for half in cache)
        shared = query.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(shared, 1), values.repeat_interleave(shared, 1)
        weights = (torch.einsum("hd,lhd->hl", query[token].double(), keys) * scale).softmax(-1)
        rows.append(torch.einsum("hl,lhd->hd", weights, values))
    return torch.stack(rows)


CHECKS = {
    "attention": check_attention,
    "rope": check_rope,
    "norms": check_norms,
    "activations": check_activations,
}


def with_bounds_from_memory() -> None:
    """Let loops in the interpreter have bounds that were loaded: numpy 2.4 makes no number of them."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


def main() -> None:
    if INTERPRETED:
        with_bounds_from_memory()
    from tests.compiler.kernel_sizes import CHECKS as SIZES

    checks = CHECKS | SIZES
    for name in sys.argv[1:] or checks:
        checks[name]("cuda" if torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    main()
