"""Rotary positions, with the norm before and the update of the cache after, as one Triton kernel.

A program has some heads of one token: of the queries, then of the keys. Programs of the keys also
carry the values into the cache. Columns are read in pairs, each once.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from compdbg.compiler.ops.layouts import Layout, blocks_of_heads
from compdbg.compiler.ops.norms import WEIGHT_IN_FLOAT
from compdbg.compiler.ops.quant_kernel import rounded_product


def norm_rotate(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, style: int, interleaved: bool
) -> Tensor:
    out = x.new_empty(x.shape)
    launch(x, None, None, cos, sin, interleaved, query_out=out, weights=(weight, None), eps=eps, style=style)
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
    launch(
        query, key, None, cos, sin, interleaved,
        query_out=outs[0], key_out=outs[1], weights=(query_weight, key_weight), eps=eps, style=style,
    )  # fmt: skip
    return outs


def update_kv_cache(key: Tensor, value: Tensor, kv_cache: Tensor, slots: Tensor) -> None:
    launch(None, key, value, None, None, False, cache=kv_cache, slots=slots)


def rotate_update_kv_cache(
    key: Tensor, value: Tensor, cos: Tensor, sin: Tensor, kv_cache: Tensor, slots: Tensor, interleaved: bool
) -> None:
    launch(None, key, value, cos, sin, interleaved, cache=kv_cache, slots=slots)


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
    launch(query, key, value, cos, sin, interleaved, query_out=out, cache=kv_cache, slots=slots)
    return out


def _heads(x: Tensor | None) -> Tensor | None:
    """With each token's heads side by side; tokens may lie anywhere."""
    if x is None or (x.stride(-1) == 1 and x.stride(-2) == x.shape[-1]):
        return x
    return x.contiguous()


def launch(  # noqa: PLR0913
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
    layout: Layout | None = None,
) -> None:
    """Turn what is given; keys and values go to the cache, where there is one."""
    query, key, value = _heads(query), _heads(key), _heads(value)
    some = key if key is not None else query
    assert some is not None
    tokens, head_dim = some.shape[0], some.shape[-1]
    heads = [0 if x is None else x.shape[1] for x in (query, key)]
    if not tokens:
        return
    half = triton.next_power_of_2(head_dim // 2)
    layout = layout or blocks_of_heads(tokens, max(heads), half, some.device)
    blocks = [triton.cdiv(count, layout.rows) for count in heads]
    _rope[(tokens, sum(blocks))](
        query, key, value, cos, sin, *weights, query_out, key_out, cache, slots,
        *(0 if x is None else x.stride(0) for x in (query, key, value, cos, sin)),
        0 if cache is None else cache.stride(0), eps,
        QUERIES=heads[0], KEYS=heads[1], QUERY_BLOCKS=blocks[0], HEADS=layout.rows,
        WIDTH=head_dim, HALF=half, ROTATE=cos is not None, INTERLEAVED=interleaved,
        NORM=weights[0] is not None, WEIGHT_IN_FLOAT=style == WEIGHT_IN_FLOAT, CACHED=cache is not None,
        num_warps=layout.warps,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _pairs(  # type: ignore[no-untyped-def]
    place, inside, WIDTH: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr
) -> Any:
    """The first and the second of each pair of columns, for places of (lines, 1)."""
    if INTERLEAVED:
        column = tl.arange(0, 2 * HALF)[None, :]
        whole = tl.load(place + column, mask=inside & (column < WIDTH), other=0.0)
        first, second = tl.split(tl.reshape(whole, (whole.shape[0], HALF, 2)))
    else:
        column = tl.arange(0, HALF)[None, :]
        inside &= column < WIDTH // 2
        first = tl.load(place + column, mask=inside, other=0.0)
        second = tl.load(place + WIDTH // 2 + column, mask=inside, other=0.0)
    return first, second


@triton.jit  # type: ignore[untyped-decorator]
def _store_pairs(  # type: ignore[no-untyped-def]
    place, first, second, inside, WIDTH: tl.constexpr, HALF: tl.constexpr, INTERLEAVED: tl.constexpr
) -> Any:
    first, second = first.to(place.dtype.element_ty), second.to(place.dtype.element_ty)
    if INTERLEAVED:
        column = tl.arange(0, 2 * HALF)[None, :]
        whole = tl.reshape(tl.join(first, second), (first.shape[0], 2 * HALF))
        tl.store(place + column, whole, mask=inside & (column < WIDTH))
    else:
        column = tl.arange(0, HALF)[None, :]
        inside &= column < WIDTH // 2
        tl.store(place + column, first, mask=inside)
        tl.store(place + WIDTH // 2 + column, second, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _normed(x, by, weight, WEIGHT_IN_FLOAT: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    wide = x.to(tl.float32) * by
    factor = wide if WEIGHT_IN_FLOAT else wide.to(x.dtype)
    return (factor.to(tl.float32) * weight.to(tl.float32)).to(x.dtype)


@triton.jit  # type: ignore[untyped-decorator]
def _turned(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    place, inside, weight, cos, sin, eps,
    WIDTH: tl.constexpr, HALF: tl.constexpr, ROTATE: tl.constexpr, INTERLEAVED: tl.constexpr,
    NORM: tl.constexpr, WEIGHT_IN_FLOAT: tl.constexpr,
) -> Any:  # fmt: skip
    first, second = _pairs(place, inside, WIDTH, HALF, INTERLEAVED)
    same = tl.zeros(inside.shape, tl.int32)
    if NORM:
        weight_first, weight_second = _pairs(weight + same, inside, WIDTH, HALF, INTERLEAVED)
        wide_first, wide_second = first.to(tl.float32), second.to(tl.float32)
        squares = tl.sum(wide_first * wide_first + wide_second * wide_second, 1, keep_dims=True)
        by = 1.0 / tl.sqrt_rn(squares / WIDTH + eps)
        first = _normed(first, by, weight_first, WEIGHT_IN_FLOAT)
        second = _normed(second, by, weight_second, WEIGHT_IN_FLOAT)
    if ROTATE:
        # Each line reads the angles again, so that they lie in registers as the heads do.
        cos_first, cos_second = _pairs(cos + same, inside, WIDTH, HALF, INTERLEAVED)
        sin_first, sin_second = _pairs(sin + same, inside, WIDTH, HALF, INTERLEAVED)
        one, minus = rounded_product(first, cos_first), rounded_product(second, sin_first)
        two, plus = rounded_product(second, cos_second), rounded_product(first, sin_second)
        first = (one.to(tl.float32) - minus.to(tl.float32)).to(one.dtype)
        second = (two.to(tl.float32) + plus.to(tl.float32)).to(one.dtype)
    return first, second


@triton.jit  # type: ignore[untyped-decorator]
def _to_rows(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    x, out, head, weight, cos, sin, eps, HEADS: tl.constexpr,
    WIDTH: tl.constexpr, HALF: tl.constexpr, ROTATE: tl.constexpr, INTERLEAVED: tl.constexpr,
    NORM: tl.constexpr, WEIGHT_IN_FLOAT: tl.constexpr,
) -> Any:  # fmt: skip
    """Heads of a token to where the token's heads are in `out`."""
    inside = head < HEADS
    first, second = _turned(
        x + head * WIDTH, inside, weight, cos, sin, eps,
        WIDTH, HALF, ROTATE, INTERLEAVED, NORM, WEIGHT_IN_FLOAT,
    )  # fmt: skip
    _store_pairs(out + head * WIDTH, first, second, inside, WIDTH, HALF, INTERLEAVED)


@triton.jit  # type: ignore[untyped-decorator]
def _to_cache(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    key, value, cache, slot, half, head, weight, cos, sin, eps, HEADS: tl.constexpr,
    WIDTH: tl.constexpr, HALF: tl.constexpr, ROTATE: tl.constexpr, INTERLEAVED: tl.constexpr,
    NORM: tl.constexpr, WEIGHT_IN_FLOAT: tl.constexpr,
) -> Any:  # fmt: skip
    """Keys of a token to its slot, and its values as they are to the other half of the cache."""
    inside = (head < HEADS) & (slot + 0 * head >= 0)
    place = cache + (slot * HEADS + head) * WIDTH
    first, second = _turned(
        key + head * WIDTH, inside, weight, cos, sin, eps,
        WIDTH, HALF, ROTATE, INTERLEAVED, NORM, WEIGHT_IN_FLOAT,
    )  # fmt: skip
    carried, also = _pairs(value + head * WIDTH, inside, WIDTH, HALF, False)
    _store_pairs(place, first, second, inside, WIDTH, HALF, INTERLEAVED)
    _store_pairs(place + half, carried, also, inside, WIDTH, HALF, False)


@triton.jit  # type: ignore[untyped-decorator]
def _rope(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    query, key, value, cos, sin, query_weight, key_weight, query_out, key_out, cache, slots,
    query_stride, key_stride, value_stride, cos_stride, sin_stride, half, eps,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, QUERY_BLOCKS: tl.constexpr, HEADS: tl.constexpr,
    WIDTH: tl.constexpr, HALF: tl.constexpr, ROTATE: tl.constexpr, INTERLEAVED: tl.constexpr,
    NORM: tl.constexpr, WEIGHT_IN_FLOAT: tl.constexpr, CACHED: tl.constexpr,
) -> Any:  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    head = block * HEADS + tl.arange(0, HEADS)[:, None]
    if ROTATE:
        cos += token * cos_stride
        sin += token * sin_stride
    if block < QUERY_BLOCKS:
        if QUERIES > 0:
            _to_rows(
                query + token * query_stride, query_out + token * QUERIES * WIDTH, head,
                query_weight, cos, sin, eps, QUERIES,
                WIDTH, HALF, ROTATE, INTERLEAVED, NORM, WEIGHT_IN_FLOAT,
            )  # fmt: skip
    elif CACHED:
        _to_cache(
            key + token * key_stride, value + token * value_stride, cache,
            tl.load(slots + token).to(tl.int64), half, head - QUERY_BLOCKS * HEADS,
            key_weight, cos, sin, eps, KEYS,
            WIDTH, HALF, ROTATE, INTERLEAVED, NORM, WEIGHT_IN_FLOAT,
        )  # fmt: skip
    elif KEYS > 0:
        _to_rows(
            key + token * key_stride, key_out + token * KEYS * WIDTH, head - QUERY_BLOCKS * HEADS,
            key_weight, cos, sin, eps, KEYS,
            WIDTH, HALF, ROTATE, INTERLEAVED, NORM, WEIGHT_IN_FLOAT,
        )  # fmt: skip
