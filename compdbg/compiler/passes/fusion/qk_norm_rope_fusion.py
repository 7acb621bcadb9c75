"""`enable_qk_norm_rope_fusion`: norm and rotary positions of queries and keys, in one launch for both."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx

from compdbg.compiler.ops import rope
from compdbg.compiler.ops.norms import norm
from compdbg.compiler.passes.fusion.forms import (
    EPS,
    HALF,
    STYLE,
    TOKENS,
    WIDTH,
    alike,
    named,
    value_of,
    variants,
)
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, FusionPattern
from compdbg.compiler.passes.fusion.order import nearest_independent

HEADS = 8


def angles_fit(match: Any, x: str = "x") -> bool:
    """Whether a match is one of (tokens, heads, head_dim) with angles of (tokens, 1, head_dim)."""
    heads, cos, sin = (value_of(match, name) for name in (x, "cos", "sin"))
    dims_fit = heads.dim() == cos.dim() == sin.dim() == 3
    return bool(
        dims_fit
        and cos.shape[1] == sin.shape[1] == 1
        and cos.shape[2] == sin.shape[2] == heads.shape[2]
        and heads.dtype == cos.dtype == sin.dtype
    )


def heads_and_angles(tokens: int, width: int, dtype: torch.dtype) -> list[Tensor]:
    """Example tensors: one of heads, cosines, sines."""
    head_dim = width // HEADS
    angles = [torch.empty(tokens, 1, head_dim, dtype=dtype) for _ in range(2)]
    return [torch.empty(tokens, HEADS, head_dim, dtype=dtype), *angles]


class QKNormRoPEFusionPass(FusionPass):
    """`rotate(rms_norm(x))` is one operator, and that of a query and its key one for both."""

    def patterns(self) -> Iterator[FusionPattern]:
        for interleaved in (False, True):
            yield _form(interleaved)

    def __call__(self, graph: fx.Graph) -> None:
        """Without norms of heads there is nothing to look for: every rotation would be a miss."""
        norms = graph.find_nodes(op="call_function", target=norm)
        self.looks_for = "" if any(node.meta["val"].dim() == 3 for node in norms) else "norm of heads"
        if self.looks_for:
            self.__dict__["_matched_count"] = 0
            return
        super().__call__(graph)
        for node in list(graph.find_nodes(op="call_function", target=rope.norm_rotate)):
            if not node._erased:
                _join(graph, node)


def _form(interleaved: bool) -> FusionPattern:
    def pattern(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, style: int) -> Any:
        return rope.rotation(norm(x, weight, eps, style), cos, sin, interleaved)

    def replacement(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, style: int) -> Any:
        return rope.norm_rotate(x, weight, cos, sin, eps, style, interleaved)

    def heads_are_normed_and_angles_fit(match: Any) -> bool:
        return angles_fit(match) and alike("x", weight="weight")(match)

    def make(tokens: int, width: int, dtype: torch.dtype) -> list[Tensor]:
        x, cos, sin = heads_and_angles(tokens, width, dtype)
        return [x, torch.empty(x.shape[-1], dtype=dtype), cos, sin]

    return FusionPattern(
        pattern=named(f"norm_rotate_{'interleaved' if interleaved else 'halves'}", pattern),
        replacement=replacement,
        inputs=lambda: make(TOKENS, WIDTH, torch.bfloat16),
        variants=variants(make, torch.float32, *HALF),
        scalar_workaround={"eps": EPS, "style": STYLE},
        extra_check=heads_are_normed_and_angles_fit,
    )


def _join(graph: fx.Graph, first: fx.Node) -> None:
    """One operator for `first` and the nearest of its kind with the same angles that it can be joined to."""
    x, weight, *rest = first.args
    others = [
        node
        for node in graph.find_nodes(op="call_function", target=rope.norm_rotate)
        if node is not first and list(node.args[2:]) == rest
    ]
    second = nearest_independent(first, others)
    if second is None:
        return
    with graph.inserting_before(second):
        both = graph.call_function(rope.norm_rotate_both, (x, second.args[0], weight, second.args[1], *rest))
        results = [graph.call_function(operator.getitem, (both, i)) for i in range(2)]
    both.meta = {**first.meta, "val": (first.meta["val"], second.meta["val"])}
    both.meta.pop("eager_input_vals", None)  # those of the operator of one
    for old, new in zip((first, second), results, strict=True):
        new.meta = dict(old.meta)
        old.replace_all_uses_with(new)
        graph.erase_node(old)
