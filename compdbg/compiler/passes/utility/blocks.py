"""Building blocks as one operator each while fusions are looked for, and as plain operators after.

A fusion then matches `static_quant(rms_norm(x, …), …)`, however the model writes a norm and in
whatever dtype, and begins at an operator that says what it is, in place of a cast or a product, of
which a graph is full. A block that no fusion took becomes what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from compdbg.compiler.ops import activations, norms, quant, rope
from compdbg.compiler.ops.define import BLOCKS
from compdbg.compiler.passes.fusion.forms import (
    EPS,
    HALF,
    SHORT,
    TOKENS,
    WIDTH,
    Make,
    alike,
    held,
    value_of,
    variants,
)
from compdbg.compiler.passes.fusion.fusion_pass import (
    FusionPattern,
    dtypes_of,
    register_forms,
    trace_pattern,
)
from compdbg.compiler.passes.inductor_pass import InductorPass
from compdbg.compiler.passes.lines import hand_on

_WIDE, _HALF = (torch.float32,), (torch.bfloat16, torch.float16)


class FoldBlocksPass(InductorPass):
    """Finds quantisation, RMSNorm, SiLU·Mul and rotary positions, written in plain PyTorch.

    Forms are tried one after the other: of two of which one is part of the other, the larger first.
    """

    def __init__(self) -> None:
        self._matchers: dict[frozenset[torch.dtype], list[Any]] = {}

    def patterns(self) -> Iterator[FusionPattern]:
        for dtypes in (_HALF, _WIDE):  # what is written for float32 also stands inside the half form
            yield from _quants(dtypes)
            yield from _norms(dtypes)
            yield _silu_mul(dtypes)
        yield from _rotations()

    def __call__(self, graph: fx.Graph) -> None:
        """Fold what is there. Nothing that isn't a block is a miss, so torch's own loop is not used."""
        dtypes = dtypes_of(graph)
        if dtypes not in self._matchers:
            forms = [form for form in self.patterns() if form.applies_to is None or form.applies_to(dtypes)]
            self._matchers[dtypes] = [register_forms(self.name, [form]) for form in forms]
        for matcher in self._matchers[dtypes]:
            fold(matcher, graph)


def fold(matcher: Any, graph: fx.Graph) -> None:
    """Replace each match of a matcher of one form, unless something is written to in its midst."""
    from torch._inductor.pattern_matcher import compute_mutation_region_ids, get_mutation_region_id

    compute_mutation_region_ids(graph)
    for (op, target), (entry,) in matcher.patterns.items():
        for node in sorted(graph.find_nodes(op=op, target=target), reverse=True):
            match = entry.pattern.match(node)
            if not match or len({get_mutation_region_id(graph, each) for each in match.nodes}) != 1:
                continue
            if entry.extra_check(match):
                entry.apply(match, graph, node)


def _one_scale(match: Any) -> bool:
    known = value_of(match, "x").dtype in (*_WIDE, *_HALF)
    return known and bool(value_of(match, "scale").numel() == 1)


def _weight_is_a_row(match: Any) -> bool:
    return bool(value_of(match, "weight").dim() == 1)


class UnfoldBlocksPass(InductorPass):
    """Blocks that are left become plain operators again."""

    def __call__(self, graph: fx.Graph) -> None:
        for operator, function in BLOCKS.items():
            for node in graph.find_nodes(op="call_function", target=operator):
                _unfold(graph, node, function)


def _unfold(graph: fx.Graph, node: fx.Node, function: Callable[..., Any]) -> None:
    tensors = [argument for argument in node.args if isinstance(argument, fx.Node)]
    values = [tensor.meta["val"] for tensor in tensors]

    def with_constants(*given: Tensor) -> Any:
        left = iter(given)
        return function(*(next(left) if isinstance(a, fx.Node) else a for a in node.args))

    with values[0].fake_mode:
        traced = trace_pattern(with_constants, values)
    copies = dict(zip(traced.graph.find_nodes(op="placeholder"), tensors, strict=True))
    with graph.inserting_before(node):
        made = graph.graph_copy(traced.graph, copies)
    hand_on(node, *(copy for copy in copies.values() if copy not in tensors))
    if isinstance(made, fx.Node):
        node.replace_all_uses_with(made)
    else:
        for user in list(node.users):
            user.replace_all_uses_with(made[user.args[1]])
            graph.erase_node(user)
    graph.erase_node(node)


def _form(
    name: str, pattern: Any, replacement: Any, make: Make, dtypes: Sequence[torch.dtype], **more: Any
) -> FusionPattern:
    return FusionPattern(
        pattern=pattern,
        replacement=replacement,
        inputs=lambda: make(TOKENS, WIDTH, dtypes[0]),
        variants=variants(make, *dtypes),
        **more,
    )


def _quants(dtypes: Sequence[torch.dtype]) -> Iterator[FusionPattern]:
    for dtype in quant.LIMITS:
        for group in (quant.GROUP, 0):
            yield _dynamic_quant(dtypes, dtype, group)
        yield _static_quant(dtypes, dtype)


def _static_quant(dtypes: Sequence[torch.dtype], to: torch.dtype) -> FusionPattern:
    return _form(
        f"static_quant_{SHORT[to]}",
        lambda x, scale: quant.quantize_static(x, scale, to),
        lambda x, scale: quant.static_quant(x, scale, to),
        lambda tokens, width, dtype: [torch.empty(tokens, width, dtype=dtype), torch.empty(())],
        dtypes,
        extra_check=_one_scale,
        applies_to=held(dtypes[0], to),
    )


def _dynamic_quant(dtypes: Sequence[torch.dtype], to: torch.dtype, group: int) -> FusionPattern:
    return _form(
        f"dynamic_quant{group or ''}_{SHORT[to]}",
        lambda x: quant.quantize_dynamic(x, group, to),
        lambda x: quant.dynamic_quant(x, group, to),
        lambda tokens, width, dtype: [torch.empty(tokens, width, dtype=dtype)],
        dtypes,
        applies_to=held(dtypes[0], to),
    )


def _norms(dtypes: Sequence[torch.dtype]) -> Iterator[FusionPattern]:
    for style in norms.STYLES:
        yield _norm(dtypes, style)


def _norm(dtypes: Sequence[torch.dtype], style: int) -> FusionPattern:
    return _form(
        f"rms_norm_style{style}",
        lambda x, weight, eps: norms.rms_norm(x, weight, eps, style),
        lambda x, weight, eps: norms.norm(x, weight, eps, style),
        lambda tokens, width, dtype: [
            torch.empty(tokens, width, dtype=dtype),
            torch.empty(width, dtype=dtype),
        ],
        dtypes,
        scalar_workaround={"eps": EPS},
        extra_check=_weight_is_a_row,
        applies_to=held(dtypes[0]),
    )


def _silu_mul(dtypes: Sequence[torch.dtype]) -> FusionPattern:
    return _form(
        "silu_mul",
        activations.silu_mul,
        activations.activation,
        lambda tokens, width, dtype: [torch.empty(tokens, width, dtype=dtype) for _ in range(2)],
        dtypes,
        extra_check=alike("gate", "up"),
        applies_to=held(dtypes[0]),
    )


def _rotations() -> Iterator[FusionPattern]:
    def make(tokens: int, width: int, dtype: torch.dtype) -> list[Tensor]:
        angles = [torch.empty(tokens, 1, width // 8, dtype=dtype) for _ in range(2)]
        return [torch.empty(tokens, 8, width // 8, dtype=dtype), *angles]

    for interleaved in (False, True):
        yield _rotation(make, interleaved)


def _rotation(make: Make, interleaved: bool) -> FusionPattern:
    return _form(
        "rotate_interleaved" if interleaved else "rotate_halves",
        lambda x, cos, sin: rope.rotate(x, cos, sin, interleaved),
        lambda x, cos, sin: rope.rotation(x, cos, sin, interleaved),
        make,
        (torch.float32, *HALF),
    )
