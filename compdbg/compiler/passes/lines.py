"""The program's lines: what a pass puts into a graph comes from the line of what it stands in for.

Findings and the comments in generated code name lines by it. Torch's matcher hands the line on to
the last node of a replacement, and a node made by hand has none.
"""

from __future__ import annotations

from collections.abc import Collection

from torch import fx


def hand_on(old: fx.Node, *made: fx.Node) -> None:
    """Nodes that stand in for `old` come from its line."""
    for node in made:
        if "stack_trace" in old.meta:
            node.meta["stack_trace"] = old.meta["stack_trace"]


def fill_in(graph: fx.Graph, given: Collection[fx.Node]) -> None:
    """Nodes other than those `given` that have no line: that of who uses them, or of what they use."""
    made = [node for node in graph.nodes if node not in given and node.op.startswith("call")]
    for node in reversed(made):
        _take_from(node, node.users)
    for node in made:
        _take_from(node, node.all_input_nodes)


def _take_from(node: fx.Node, others: Collection[fx.Node]) -> None:
    if not node.meta.get("stack_trace"):
        hand_on(next((n for n in others if n.meta.get("stack_trace")), node), node)
