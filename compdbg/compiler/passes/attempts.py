"""What a pass that finds its matches itself tried, and why it left a site: as torch's matcher is told of.

Names are taken down at once: a pass erases what it has matched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from torch import fx

from compdbg import probe
from compdbg.compiler.splitting import line_of
from compdbg.events import MatchAttempt, NearMiss, Pattern, PatternPass, Reason

HOPS = 4
"""How far from where matching stopped another op of the pattern makes a site a miss."""
_graphs = itertools.count(-1, -1)


class Attempts:
    """The sites of one graph, for one pass."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._graph_id = next(_graphs)
        self._made: list[MatchAttempt] = []

    def matched(self, anchor: fx.Node, consumed: Iterable[fx.Node]) -> None:
        """These nodes are replaced."""
        self._add(anchor, "matched", consumed=[node.name for node in consumed])

    def missed(  # noqa: PLR0913
        self,
        anchor: fx.Node,
        stop: fx.Node,
        reason: Reason,
        wanted: str,
        found: str,
        near: Iterable[fx.Node] = (),
        *,
        nodes: tuple[int, int] = (1, 2),
        pattern: str = "",
    ) -> None:
        """Matching came as far as `stop`; `near` are other ops of the pattern close by.

        `nodes`: how many nodes were matched, and how many the pattern has.
        """
        inputs = anchor.graph.find_nodes(op="placeholder")
        at_edge = stop.op == "placeholder"
        miss = NearMiss(
            reason=reason,
            stage="first",
            node=stop.name,
            wanted=wanted,
            found=found,
            matched_nodes=nodes[0],
            pattern_nodes=nodes[1],
            where=line_of(stop) or line_of(anchor),
            boundary="input" if at_edge else "",
            edge_index=list(inputs).index(stop) if at_edge else None,
        )
        names = [node.name for node in near]
        self._add(anchor, "missed", pattern=pattern, miss=miss, near=bool(names), near_nodes=names)

    def _add(self, anchor: fx.Node, outcome: str, pattern: str = "", **more: Any) -> None:
        self._made.append(
            MatchAttempt(
                pass_id=self._name,
                pass_name=self._name,
                pattern=pattern or self._name,
                graph="",
                anchor=anchor.name,
                outcome=outcome,
                graph_id=self._graph_id,
                where=line_of(anchor),
                **more,
            )
        )

    def tell(self, counted: PatternPass, looks_for: str) -> None:
        """Emit the pass's run over a graph, and its attempts below it."""
        names = list(dict.fromkeys((self._name, *(each.pattern for each in self._made))))
        tried = {name: sum(each.pattern == name for each in self._made) for name in names}
        told = msgspec.structs.replace(
            counted,
            graph_id=self._graph_id,
            patterns=[Pattern(name=name, anchors=[looks_for]) for name in names],
            matched_by={self._name: counted.matched},
            attempted=len(self._made),
            attempted_by=tried,
        )
        with probe.under(probe.emit(told)):
            for each in self._made:
                probe.emit(msgspec.structs.replace(each, graph=counted.graph))


def described(node: fx.Node) -> str:
    """A node in a word: its operator, or what else it is."""
    return str(node.target) if node.op == "call_function" else f"{node.op} {node.name}"


def near(stop: fx.Node, wanted: Callable[[fx.Node], bool]) -> list[fx.Node]:
    """The nodes of a kind within `HOPS` of a node, nearest first; the node itself is one."""
    seen = {stop: None}
    edge = [stop]
    for _ in range(HOPS):
        edge = [n for node in edge for n in (*node.all_input_nodes, *node.users) if n not in seen]
        seen.update(dict.fromkeys(edge))
    return [node for node in seen if wanted(node)]
