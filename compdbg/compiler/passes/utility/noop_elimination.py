"""Removes reshapes, slices and scatters that change nothing, so that fusions see through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from compdbg.compiler.passes.inductor_pass import InductorPass

_RESHAPES = (torch.ops.aten.reshape.default, torch.ops.aten.view.default)


class NoOpEliminationPass(InductorPass):
    """A chain of reshapes is its last one; a reshape or slice to the same shape is its input.

    A `slice_scatter` of the whole is what is scattered. Inductor's own pass of the kind leaves
    slices up to a symbolic size, and chains, in place.
    """

    def __call__(self, graph: fx.Graph) -> None:
        for node in list(graph.nodes):
            if _calls(node, *_RESHAPES):
                _shorten(graph, node)
            if _calls(node, *_RESHAPES, torch.ops.aten.slice.Tensor):
                _drop_if_equal(graph, node, node.args[0])
            elif _calls(node, torch.ops.aten.slice_scatter.default):
                _drop_if_equal(graph, node, node.args[1], like=node.args[0])


def _shorten(graph: fx.Graph, node: fx.Node) -> None:
    source = node.args[0]
    if isinstance(source, fx.Node) and _calls(source, *_RESHAPES):
        node.update_arg(0, source.args[0])
        if not source.users:
            graph.erase_node(source)


def _drop_if_equal(graph: fx.Graph, node: fx.Node, replacement: Any, like: Any = None) -> None:
    """Replace `node` by `replacement` where that has the shape of `like` (or else of `node`)."""
    value = _value(like if like is not None else node)
    other = _value(replacement)
    if value is None or other is None or value.dtype != other.dtype:
        return
    if same_sizes(value.shape, other.shape) and not _escapes(node, replacement):
        node.replace_all_uses_with(replacement)
        graph.erase_node(node)


def _escapes(node: fx.Node, replacement: fx.Node) -> bool:
    """A returned view of an input is not the input itself."""
    return replacement.op == "placeholder" and any(user.op == "output" for user in node.users)


def same_sizes(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two shapes are known to be equal."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(statically_known_true(a == b) for a, b in pairs)


def _value(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _calls(node: fx.Node, *targets: Any) -> bool:
    return node.op == "call_function" and node.target in targets
