"""Rotary positions: alone, after the norm of queries and keys, and with the update of the cache."""

from __future__ import annotations

import torch
from torch import Tensor

from compdbg.compiler.ops.define import block, operator
from compdbg.compiler.ops.norms import rms_norm

_KERNELS = "compdbg.compiler.ops.rope_kernels"


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """`x` of (tokens, heads, head_dim), turned by angles of (tokens, 1, head_dim).

    Pairs are (i, i + head_dim/2) as in GPT-NeoX and Llama, or interleaved (2i, 2i + 1) as in GPT-J.
    """
    if interleaved:
        other = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    else:
        first, second = x.chunk(2, -1)
        other = torch.cat((-second, first), -1)
    return x * cos + other * sin


def store(key: Tensor, value: Tensor, kv_cache: Tensor, slots: Tensor) -> None:
    """Write rows to a paged cache of (2, blocks, block, heads, head_dim); a slot of -1 is none."""
    there = slots.clamp(min=0).long()
    kept = (slots < 0)[:, None, None]
    for cache, rows in zip(kv_cache.flatten(1, 2), (key, value), strict=True):
        cache[there] = torch.where(kept, cache[there], rows.to(cache.dtype))


def _norm_rotate(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, style: int, interleaved: bool
) -> Tensor:
    return rotate(rms_norm(x, weight, eps, style), cos, sin, interleaved)


def _norm_rotate_both(  # noqa: PLR0913, PLR0917
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
    turned = _norm_rotate(query, query_weight, cos, sin, eps, style, interleaved)
    return turned, _norm_rotate(key, key_weight, cos, sin, eps, style, interleaved)


def _rotate_store(
    key: Tensor, value: Tensor, cos: Tensor, sin: Tensor, kv_cache: Tensor, slots: Tensor, interleaved: bool
) -> None:
    store(rotate(key, cos, sin, interleaved), value, kv_cache, slots)


def _rotate_both_store(  # noqa: PLR0913, PLR0917
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cos: Tensor,
    sin: Tensor,
    kv_cache: Tensor,
    slots: Tensor,
    interleaved: bool,
) -> Tensor:
    _rotate_store(key, value, cos, sin, kv_cache, slots, interleaved)
    return rotate(query, cos, sin, interleaved)


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


rotation = block("rotate(Tensor x, Tensor cos, Tensor sin, bool interleaved) -> Tensor", rotate)
update_kv_cache = operator(
    "update_kv_cache(Tensor key, Tensor value, Tensor(a!) kv_cache, Tensor slots) -> ()",
    store,
    lambda key, value, kv_cache, slots: None,
    f"{_KERNELS}:update_kv_cache",
)
norm_rotate = operator(
    "norm_rotate(Tensor x, Tensor weight, Tensor cos, Tensor sin, float eps, int style, bool interleaved)"
    " -> Tensor",
    _norm_rotate,
    lambda x, *_: _like(x),
    f"{_KERNELS}:norm_rotate",
)
norm_rotate_both = operator(
    "norm_rotate_both(Tensor query, Tensor key, Tensor query_weight, Tensor key_weight, Tensor cos,"
    " Tensor sin, float eps, int style, bool interleaved) -> (Tensor, Tensor)",
    _norm_rotate_both,
    lambda query, key, *_: (_like(query), _like(key)),
    f"{_KERNELS}:norm_rotate_both",
)
rotate_update_kv_cache = operator(
    "rotate_update_kv_cache(Tensor key, Tensor value, Tensor cos, Tensor sin, Tensor(a!) kv_cache,"
    " Tensor slots, bool interleaved) -> ()",
    _rotate_store,
    lambda key, value, cos, sin, kv_cache, slots, interleaved: None,
    f"{_KERNELS}:rotate_update_kv_cache",
)
rotate_both_update_kv_cache = operator(
    "rotate_both_update_kv_cache(Tensor query, Tensor key, Tensor value, Tensor cos, Tensor sin,"
    " Tensor(a!) kv_cache, Tensor slots, bool interleaved) -> Tensor",
    _rotate_both_store,
    lambda query, key, value, cos, sin, kv_cache, slots, interleaved: _like(query),
    f"{_KERNELS}:rotate_both_update_kv_cache",
)
