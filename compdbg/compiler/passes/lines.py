"""The program's lines: what a pass puts into a graph comes from the line of what it stands in for.

Findings and the comments in generated code name lines by it. Torch's matcher hands the line on to
the last node of a replacement, torch 2.11's to none, and a node made by hand has none.

Private name, seen in torch 2.11 to 2.14.1: `GraphModule._set_replace_hook`, which tells of each use
of a node that is given to another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext

from torch import fx


def hand_on(old: fx.Node, *made: fx.Node) -> None:
    """Nodes that stand in for `old` come from its line."""
    for node in made:
        if "stack_trace" in old.meta:
            node.meta["stack_trace"] = old.meta["stack_trace"]


@contextmanager
def handed_on(graph: fx.Graph) -> Iterator[None]:
    """After the block all that it has put into the graph has a line.

    That is the line of what it stands in for: the node whose users it was given. Others come from
    where those are used, or from what they use.
    """
    given = frozenset(graph.nodes)
    stands_for: dict[str, fx.Node] = {}

    def note(old: fx.Node, new: str, user: fx.Node) -> None:
        stands_for.setdefault(new, old)

    watched = getattr(graph.owning_module, "_set_replace_hook", None)
    with nullcontext() if watched is None else watched(note):
        yield
    made = [node for node in graph.nodes if node not in given and node.op.startswith("call")]
    for node in made:
        _take_from(node, [stands_for[node.name]] if node.name in stands_for else [])
    for node in reversed(made):
        _take_from(node, node.users)
    for node in made:
        _take_from(node, node.all_input_nodes)


def _take_from(node: fx.Node, others: Collection[fx.Node]) -> None:
    if not node.meta.get("stack_trace"):
        hand_on(next((n for n in others if n.meta.get("stack_trace")), node), node)
