"""Reads of a part that was written just before become what was written.

A model that writes to parts of a tensor in place (rotary positions within a packed projection) is
functionalized into scatters: each makes the whole tensor anew, and what follows takes its parts out
of that again. A pattern that wants what was written finds a part of a scatter in its place.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from compdbg.compiler.passes.inductor_pass import InductorPass
from compdbg.compiler.passes.utility.noop_elimination import same_sizes
from compdbg.compiler.passes.utility.parts import SPLITS, Part, part_read, part_written, value_of

aten = torch.ops.aten


class ScatterSplitReplacementPass(InductorPass):
    """A part of a scatter is what was scattered there, or else that part of what it was scattered into.

    Scatters that nobody reads as a whole are dropped. A copy over all of a value is what is copied.
    """

    def __call__(self, graph: fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.op == "call_function" and node.target is aten.copy.default:
                _replace(graph, node, node.args[1])
            else:
                _read_before_scatters(graph, node)
        for node in reversed(list(graph.nodes)):
            unread = node.op == "call_function" and not node.users
            if unread and (part_written(node) or node.target in SPLITS or part_read(node)):
                graph.erase_node(node)


def _read_before_scatters(graph: fx.Graph, node: fx.Node) -> None:
    """Follow what a node reads back through the scatters that it does not need."""
    part = part_read(node)
    source = part.source if part is not None else None
    while part is not None and (scatter := part_written(part.source)) is not None:
        written, by = scatter
        if part.same_place(written):
            _replace(graph, node, by)
            return
        if not part.apart_from(written):
            break
        part = part._replace(source=written.source)
    if part is not None and part.source is not source:
        _read_of(graph, node, part)


def _read_of(graph: fx.Graph, node: fx.Node, part: Part) -> None:
    """Have the node read the same part of another tensor."""
    if node.target is not operator.getitem:
        node.update_arg(0, part.source)
        return
    split: Any = node.args[0]
    with graph.inserting_before(split):
        other = graph.call_function(split.target, (part.source, *split.args[1:]))
    other.meta = dict(split.meta)
    node.update_arg(0, other)


def _replace(graph: fx.Graph, node: fx.Node, by: Any) -> None:
    """Put `by` in place of a node of the same dtype and shape, unless a caller would see other strides."""
    value, other = value_of(node), value_of(by)
    if value is None or other is None or (value.dtype, value.device) != (other.dtype, other.device):
        return
    seen = any(user.op == "output" or user.target is aten.as_strided.default for user in node.users)
    if not same_sizes(value.shape, other.shape) or (seen and value.stride() != other.stride()):
        return
    if by.op == "placeholder" and seen:
        return
    node.replace_all_uses_with(by)
    graph.erase_node(node)
