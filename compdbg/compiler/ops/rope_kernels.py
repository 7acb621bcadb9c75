"""Rotary positions, with the norm before and the update of the cache after, as one Triton kernel.

A program is one head of one token: of the queries, then of the keys. Programs of the keys also
carry the values into the cache.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from compdbg.compiler.ops.norms import WEIGHT_IN_FLOAT


def norm_rotate(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, style: int, interleaved: bool
) -> Tensor:
    out = x.new_empty(x.shape)
    _launch(x, None, None, cos, sin, interleaved, query_out=out, weights=(weight, None), eps=eps, style=style)
    return out


def norm_rotate_both(  # noqa: PLR0913, PLR0917
    query: Tensor,
    key: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    cos: Tensor,
    sin: Tensor,
    eps: float,
    style: int,
    interleaved: bool,
) -> tuple[Tensor, Tensor]:
    outs = query.new_empty(query.shape), key.new_empty(key.shape)
    _launch(
        query, key, None, cos, sin, interleaved,
        query_out=outs[0], key_out=outs[1], weights=(query_weight, key_weight), eps=eps, style=style,
    )  # fmt: skip
    return outs


def update_kv_cache(key: Tensor, value: Tensor, kv_cache: Tensor, slots: Tensor) -> None:
    _launch(None, key, value, None, None, False, cache=kv_cache, slots=slots)


def rotate_update_kv_cache(
    key: Tensor, value: Tensor, cos: Tensor, sin: Tensor, kv_cache: Tensor, slots: Tensor, interleaved: bool
) -> None:
    _launch(None, key, value, cos, sin, interleaved, cache=kv_cache, slots=slots)


def rotate_both_update_kv_cache(  # noqa: PLR0913, PLR0917
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cos: Tensor,
    sin: Tensor,
    kv_cache: Tensor,
    slots: Tensor,
    interleaved: bool,
) -> Tensor:
    out = query.new_empty(query.shape)
    _launch(query, key, value, cos, sin, interleaved, query_out=out, cache=kv_cache, slots=slots)
    return out


def _heads(x: Tensor | None) -> Tensor | None:
    """With each token's heads side by side; tokens may lie anywhere."""
    if x is None or (x.stride(-1) == 1 and x.stride(-2) == x.shape[-1]):
        return x
    return x.contiguous()


def _launch(  # noqa: PLR0913
    query: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    cos: Tensor | None,
    sin: Tensor | None,
    interleaved: bool,
    *,
    query_out: Tensor | None = None,
    key_out: Tensor | None = None,
    weights: tuple[Tensor | None, Tensor | None] = (None, None),
    eps: float = 0.0,
    style: int = 0,
    cache: Tensor | None = None,
    slots: Tensor | None = None,
) -> None:
    query, key, value = _heads(query), _heads(key), _heads(value)
    some = key if key is not None else query
    assert some is not None
    tokens, head_dim = some.shape[0], some.shape[-1]
    heads = [0 if x is None else x.shape[1] for x in (query, key)]
    if not tokens:
        return
    _rope[(tokens, sum(heads))](
        query, key, value, cos, sin, *weights, query_out, key_out, cache, slots,
        *(0 if x is None else x.stride(0) for x in (query, key, value, cos, sin)),
        0 if cache is None else cache.stride(0), eps,
        QUERIES=heads[0], KEYS=heads[1], WIDTH=head_dim, COLUMNS=triton.next_power_of_2(head_dim),
        ROTATE=cos is not None, INTERLEAVED=interleaved, NORM=weights[0] is not None,
        WEIGHT_IN_FLOAT=style == WEIGHT_IN_FLOAT, CACHED=cache is not None, num_warps=1,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _turned(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    place, weight, cos, sin, column, inside, eps,
    WIDTH: tl.constexpr, ROTATE: tl.constexpr, INTERLEAVED: tl.constexpr, NORM: tl.constexpr,
    WEIGHT_IN_FLOAT: tl.constexpr,
) -> Any:  # fmt: skip
    value = tl.load(place + column, mask=inside, other=0.0)
    dtype = value.dtype
    if not ROTATE:
        return value
    if INTERLEAVED:
        partner = column ^ 1
        first = column % 2 == 0
    else:
        first = column < WIDTH // 2
        partner = tl.where(first, column + WIDTH // 2, column - WIDTH // 2)
    wide = value.to(tl.float32)
    other = tl.load(place + partner, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        by = 1.0 / tl.sqrt_rn(tl.sum(wide * wide, 0) / WIDTH + eps)
        wide = wide * by
        other = other * by
        if not WEIGHT_IN_FLOAT:
            wide = wide.to(dtype).to(tl.float32)
            other = other.to(dtype).to(tl.float32)
        wide = (wide * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)).to(dtype)
        other = (other * tl.load(weight + partner, mask=inside, other=0.0).to(tl.float32)).to(dtype)
        wide = wide.to(tl.float32)
        other = other.to(tl.float32)
    other = tl.where(first, -other, other)
    c = tl.load(cos + column, mask=inside, other=0.0).to(tl.float32)
    s = tl.load(sin + column, mask=inside, other=0.0).to(tl.float32)
    return ((wide * c).to(dtype).to(tl.float32) + (other * s).to(dtype).to(tl.float32)).to(dtype)


@triton.jit  # type: ignore[untyped-decorator]
def _rope(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    query, key, value, cos, sin, query_weight, key_weight, query_out, key_out, cache, slots,
    query_stride, key_stride, value_stride, cos_stride, sin_stride, half, eps,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    ROTATE: tl.constexpr, INTERLEAVED: tl.constexpr, NORM: tl.constexpr,
    WEIGHT_IN_FLOAT: tl.constexpr, CACHED: tl.constexpr,
) -> Any:  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    column = tl.arange(0, COLUMNS)
    inside = column < WIDTH
    if ROTATE:
        cos += token * cos_stride
        sin += token * sin_stride
    if head < QUERIES:
        if QUERIES > 0:
            turned = _turned(
                query + token * query_stride + head * WIDTH, query_weight, cos, sin, column, inside, eps,
                WIDTH, ROTATE, INTERLEAVED, NORM, WEIGHT_IN_FLOAT,
            )  # fmt: skip
            tl.store(query_out + (token * QUERIES + head) * WIDTH + column, turned, mask=inside)
    elif KEYS > 0:
        at = head - QUERIES
        turned = _turned(
            key + token * key_stride + at * WIDTH, key_weight, cos, sin, column, inside, eps,
            WIDTH, ROTATE, INTERLEAVED, NORM, WEIGHT_IN_FLOAT,
        )  # fmt: skip
        if CACHED:
            slot = tl.load(slots + token).to(tl.int64)
            if slot >= 0:
                place = cache + (slot * KEYS + at) * WIDTH + column
                tl.store(place, turned.to(cache.dtype.element_ty), mask=inside)
                carried = tl.load(value + token * value_stride + at * WIDTH + column, mask=inside)
                tl.store(place + half, carried.to(cache.dtype.element_ty), mask=inside)
        else:
            tl.store(key_out + (token * KEYS + at) * WIDTH + column, turned, mask=inside)
