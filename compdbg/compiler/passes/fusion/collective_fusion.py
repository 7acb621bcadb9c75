"""`fuse_collectives`: sums over ranks that do not need each other are one collective."""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

import torch
from torch import fx

from compdbg.compiler.passes.attempts import Attempts, near
from compdbg.compiler.passes.fusion.order import depends_on
from compdbg.compiler.passes.fusion.ranks import nothing_to_gather, world
from compdbg.compiler.passes.inductor_pass import InductorPass
from compdbg.compiler.ranges import Range
from compdbg.events import Reason

_functional = torch.ops._c10d_functional


class CollectiveFusionPass(InductorPass):
    """All-reduces of one kind over one group become `all_reduce_coalesced`, those of a batch at once.

    What batches there are follows from the graph alone: ranks with equal graphs do the same.
    """

    looks_for = "_c10d_functional.all_reduce.default"

    def __init__(self) -> None:
        self._matched_count = 0

    @property
    def matched_count(self) -> int:
        """Batches in the graph that ran last."""
        return self._matched_count

    def refusal(self, graph: fx.Graph, compile_range: Range) -> str:
        return nothing_to_gather(graph, [world()]) or super().refusal(graph, compile_range)

    def __call__(self, graph: fx.Graph) -> None:
        found: dict[tuple[Any, ...], list[fx.Node]] = defaultdict(list)
        for node in graph.find_nodes(op="call_function", target=_functional.all_reduce.default):
            value = node.args[0].meta["val"]
            found[(*node.args[1:], value.dtype, value.device)].append(node)
        self._attempts = Attempts(self.name)
        _tell(self._attempts, [node for nodes in found.values() for node in nodes])
        batches = [batch for nodes in found.values() for batch in _independent(nodes) if len(batch) > 1]
        for batch in batches:
            self._attempts.matched(batch[-1], batch)
            _coalesce(graph, batch)
        self._matched_count = len(batches)


def _tell(attempts: Attempts, nodes: list[fx.Node]) -> None:
    """Sums close to each other that do not need each other, and differ in kind, group or dtype."""
    for node in nodes:
        close = near(node, lambda other: other is not node and other in nodes)  # noqa: B023
        for other in close:
            free = not depends_on(node, other) and not depends_on(other, node)
            if free and (difference := _difference(node, other)) is not None:
                attempts.missed(node, other, *difference, [other])
                break


def _difference(node: fx.Node, other: fx.Node) -> tuple[Reason, str, str] | None:
    mine, its = node.meta["val"], other.meta["val"]
    for what, wanted, found in zip(("a reduction", "a group"), node.args[1:], other.args[1:], strict=True):
        if wanted != found:
            return "arg-mismatch", f"{what} of {wanted!r}", repr(found)
    if mine.dtype != its.dtype:
        return "dtype-mismatch", str(mine.dtype), str(its.dtype)
    return None if mine.device == its.device else ("other", str(mine.device), str(its.device))


def _independent(nodes: list[fx.Node]) -> list[list[fx.Node]]:
    """Batches in order, none of whose members needs another."""
    batches: list[list[fx.Node]] = []
    for node in nodes:
        if batches and not any(depends_on(node, other) for other in batches[-1]):
            batches[-1].append(node)
        else:
            batches.append([node])
    return batches


def _coalesce(graph: fx.Graph, batch: list[fx.Node]) -> None:
    last = batch[-1]
    with graph.inserting_before(last):
        inputs = [node.args[0] for node in batch]
        together = graph.call_function(_functional.all_reduce_coalesced.default, (inputs, *last.args[1:]))
        results = [graph.call_function(operator.getitem, (together, i)) for i in range(len(batch))]
    together.meta["val"] = [node.meta["val"] for node in batch]
    for node, result in zip(batch, results, strict=True):
        result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        graph.erase_node(node)
