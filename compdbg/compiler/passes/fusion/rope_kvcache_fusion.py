"""`fuse_rope_kvcache`: rotary positions of queries and keys, and the update of the cache, in one launch."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2

from compdbg.compiler.ops import rope
from compdbg.compiler.passes.fusion.forms import HALF, TOKENS, WIDTH, alike, named, value_of, variants
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, FusionPattern
from compdbg.compiler.passes.fusion.order import nearest_independent
from compdbg.compiler.passes.fusion.qk_norm_rope_fusion import HEADS, angles_fit, heads_and_angles


class RoPEKVCacheFusionPass(FusionPass):
    """`compdbg::update_kv_cache` of rotated keys takes the rotation in, then that of the queries."""

    def patterns(self) -> Iterator[FusionPattern]:
        for interleaved in (False, True):
            yield _form(interleaved)

    def __call__(self, graph: fx.Graph) -> None:
        super().__call__(graph)
        for node in list(graph.find_nodes(op="call_function", target=auto_functionalized_v2)):
            if node.args[0] is rope.rotate_update_kv_cache:
                _take_query(graph, node)


def _written(operation: Any, kv_cache: Tensor, **arguments: Any) -> Any:
    """The cache after an operator has written to it, as functionalization has it."""
    return auto_functionalized_v2(operation, **arguments, _kv_cache_base_index=0, _all_bases=[kv_cache])[1]


def _form(interleaved: bool) -> FusionPattern:
    def pattern(key: Tensor, value: Tensor, cos: Tensor, sin: Tensor, kv_cache: Tensor, slots: Tensor) -> Any:
        turned = rope.rotation(key, cos, sin, interleaved)
        return _written(rope.update_kv_cache, kv_cache, key=turned, value=value, slots=slots)

    def replacement(
        key: Tensor, value: Tensor, cos: Tensor, sin: Tensor, kv_cache: Tensor, slots: Tensor
    ) -> Any:
        return _written(
            rope.rotate_update_kv_cache,
            kv_cache,
            key=key,
            value=value,
            cos=cos,
            sin=sin,
            slots=slots,
            interleaved=interleaved,
        )

    def keys_values_and_cache_fit(match: Any) -> bool:
        cache = value_of(match, "kv_cache")
        return angles_fit(match, "key") and alike("key", "value")(match) and cache.is_contiguous()

    def make(tokens: int, width: int, dtype: torch.dtype) -> list[Tensor]:
        key, cos, sin = heads_and_angles(tokens, width, dtype)
        cache = torch.empty(2, 4, 16, HEADS, key.shape[-1], dtype=dtype)
        return [key, torch.empty_like(key), cos, sin, cache, torch.empty(tokens, dtype=torch.int64)]

    return FusionPattern(
        pattern=named(f"rotate_update_{'interleaved' if interleaved else 'halves'}", pattern),
        replacement=replacement,
        inputs=lambda: make(TOKENS, WIDTH, torch.bfloat16),
        variants=variants(make, torch.float32, *HALF),
        extra_check=keys_values_and_cache_fit,
    )


def _take_query(graph: fx.Graph, node: fx.Node) -> None:
    """Let the operator of the keys also turn the queries: the nearest rotation by the same angles."""
    given = dict(node.kwargs)
    angles = [given["cos"], given["sin"], given["interleaved"]]
    rotations = [
        other
        for other in graph.find_nodes(op="call_function", target=rope.rotation)
        if list(other.args[1:]) == angles and other.meta["val"].dtype == given["key"].meta["val"].dtype
    ]
    turned = nearest_independent(node, rotations)
    if turned is None:
        return
    query = turned.args[0]
    with graph.inserting_before(node):
        both = graph.call_function(
            auto_functionalized_v2,
            (rope.rotate_both_update_kv_cache,),
            {"query": query, **given},
        )
        result = graph.call_function(operator.getitem, (both, 0))
        cache = graph.call_function(operator.getitem, (both, 1))
    values = node.meta["val"]
    both.meta = {**node.meta, "val": (turned.meta["val"], *values[1:])}
    both.meta.pop("eager_input_vals", None)  # those of the operator without queries
    result.meta, cache.meta = dict(turned.meta), {**node.meta, "val": values[1]}
    for user in list(node.users):
        user.replace_all_uses_with(cache)
        graph.erase_node(user)
    turned.replace_all_uses_with(result)
    graph.erase_node(turned)
    graph.erase_node(node)
