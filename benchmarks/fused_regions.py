"""What each fusion puts together: the fused operator, the operators it stands for, and their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from compdbg.compiler.ops import activations, norms, projections, rope
from compdbg.compiler.ops.quant import quantize_static
from fixtures.models.metadata import BLOCK

EPS = 1e-5
HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
BF16 = torch.bfloat16
KINDS = {"fp8": torch.float8_e4m3fn, "int8": torch.int8}
WAYS = {"static": None, "per-token": 0, "group128": 128}
Make = Callable[[int, int, str], Sequence[Any]]


class Region(NamedTuple):
    """`fused` and `plain` take what `make(tokens, width, device)` gives, and give the same."""

    name: str
    make: Make
    fused: Callable[..., Any]
    plain: Callable[..., Any]
    memory_bound: bool = True
    uncounted: tuple[int, ...] = ()
    """Arguments of which little is read: a cache."""
    also_written: tuple[int, ...] = ()
    """Arguments that are written somewhere: what goes to a cache."""
    main: bool = True
    """Measured at every size; others at two."""


def all_regions() -> list[Region]:
    """The most telling first."""
    found = [*norm_regions(), *activation_regions(), *rope_regions(), projection_region()]
    return sorted(found, key=lambda region: not region.main)


def _rows(tokens: int, width: int, device: str) -> Tensor:
    return torch.randn(tokens, width, device=device).to(BF16)


def _weight(width: int, device: str) -> Tensor:
    return (torch.rand(width, device=device) + 0.5).to(BF16)


def _scale(device: str) -> Tensor:
    return torch.tensor(0.02, device=device)


def norm_regions() -> Iterator[Region]:
    for kind, dtype in KINDS.items():
        for way, group in WAYS.items():
            for residual in (False, True):
                yield _norm_region(kind, dtype, way, group, residual)
    yield Region(
        "residual+norm",
        lambda n, width, d: (_rows(n, width, d), _rows(n, width, d), _weight(width, d), EPS, 0),
        norms.add_rms_norm,
        norms._add,
    )


def _norm_region(kind: str, dtype: torch.dtype, way: str, group: int | None, residual: bool) -> Region:
    def make(n: int, width: int, device: str) -> Sequence[Any]:
        inputs = [_rows(n, width, device) for _ in range(1 + residual)]
        scale = [_scale(device)] if group is None else []
        numbers = [EPS, 0] if group is None else [EPS, 0, group]
        return [*inputs, _weight(width, device), *scale, *numbers, dtype]

    prefix = "add_rms_norm" if residual else "rms_norm"
    fused = getattr(norms, f"{prefix}_{'static' if group is None else 'dynamic'}_quant")
    plain = getattr(norms, f"{'_add' if residual else ''}_{'static' if group is None else 'dynamic'}")
    name = f"{'residual+' if residual else ''}norm+{way} {kind}"
    return Region(name, make, fused, plain, main=kind == "fp8")


def activation_regions() -> Iterator[Region]:
    for kind, dtype in KINDS.items():
        for way, group in WAYS.items():
            last = [] if group is None else [group]

            def make(
                n: int, width: int, device: str, last: list[int] = last, dtype: torch.dtype = dtype
            ) -> Sequence[Any]:
                scale = [] if last else [_scale(device)]
                return [*(_rows(n, width, device) for _ in range(2)), *scale, *last, dtype]

            fused = activations.silu_mul_dynamic_quant if last else activations.silu_mul_static_quant
            plain = activations._dynamic if last else activations._static
            yield Region(f"silu*mul+{way} {kind}", make, fused, plain, main=kind == "fp8")


def heads_of(tokens: int, width: int, device: str) -> list[Tensor]:
    """Queries, keys and values as parts of one product of about `width` columns, and angles."""
    heads = max(4, width // HEAD_DIM)
    sizes = [heads, max(1, heads // 4), max(1, heads // 4)]
    product = _rows(tokens, sum(sizes) * HEAD_DIM, device).unflatten(-1, (-1, HEAD_DIM))
    angles = torch.randn(2, tokens, 1, HEAD_DIM, device=device).to(BF16)
    return [*product.split(sizes, 1), *angles]


def rope_regions() -> Iterator[Region]:
    for style, interleaved in (("NeoX", False), ("GPT-J", True)):
        yield _cache_region(style, interleaved)
        yield _norm_rope_region(style, interleaved)


def _cache_region(style: str, interleaved: bool) -> Region:
    def make(n: int, width: int, device: str) -> Sequence[Any]:
        query, key, value, cos, sin = heads_of(n, width, device)
        cache = torch.empty(2, -(-n // BLOCK) + 1, BLOCK, *key.shape[1:], dtype=BF16, device=device)
        slots = torch.randperm(n, device=device) + BLOCK
        return query, key, value, cos, sin, cache, slots, interleaved

    return Region(
        f"rope+cache {style}", make, rope.rotate_both_update_kv_cache, rope._rotate_both_store,
        uncounted=(5,), also_written=(1, 2), main=not interleaved,
    )  # fmt: skip


def _norm_rope_region(style: str, interleaved: bool) -> Region:
    def make(n: int, width: int, device: str) -> Sequence[Any]:
        query, key, _, cos, sin = heads_of(n, width, device)
        weights = [_weight(HEAD_DIM, device) for _ in range(2)]
        return query, key, *weights, cos, sin, EPS, 0, interleaved

    fused, plain = rope.norm_rotate_both, rope._norm_rotate_both
    return Region(f"qk-norm+rope {style}", make, fused, plain, main=not interleaved)


def projection_region() -> Region:
    def make(n: int, width: int, device: str) -> Sequence[Any]:
        sizes = (width, width // 4, width // 4)
        return _rows(n, width, device), [_rows(size, width, device) / width**0.5 for size in sizes]

    def plain(x: Tensor, weights: list[Tensor]) -> list[Tensor]:
        return [x @ weight.t() for weight in weights]

    def merged(x: Tensor, weights: list[Tensor]) -> Sequence[Tensor]:
        whole = projections.merged_projection(x, weights)
        return list(whole.split([weight.shape[0] for weight in weights], -1))

    return Region("qkv projection", make, merged, plain, memory_bound=False, main=False)


def separate_quant(x: Tensor, scale: Tensor) -> Tensor:
    """What attention's output goes through where nothing is fused."""
    return quantize_static(x, scale, torch.float8_e4m3fn)
