"""Which nodes of a graph need which, for fusions that join operators without a path between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import fx


def depends_on(node: Any, other: fx.Node) -> bool:
    """Whether `node` is computed from `other`, or is it."""
    waiting = [node]
    seen: set[fx.Node] = set()
    while waiting:
        current = waiting.pop()
        if current is other:
            return True
        if current not in seen:
            seen.add(current)
            waiting += current.all_input_nodes
    return False


def nearest_independent(node: fx.Node, others: Iterable[fx.Node]) -> fx.Node | None:
    """Of `others`, the one closest to `node` that neither needs it nor is needed by it."""
    order = {each: i for i, each in enumerate(node.graph.nodes)}
    at = order[node]
    for other in sorted(others, key=lambda each: abs(order[each] - at)):
        if not depends_on(other, node) and not depends_on(node, other):
            return other
    return None
