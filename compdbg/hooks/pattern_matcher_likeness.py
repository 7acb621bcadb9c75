"""Whether what stands at an anchor is like a pattern: what makes a failed attempt a near miss.

An op that is rare shows a pattern by being near. Common ones (a sum, a product) are everywhere, and
show it only together, wired as in the pattern but for a few: an op more, one less, or another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from compdbg.hooks.pattern_matcher_kinds import is_common, is_of_torch, is_pointwise, is_trivial
from compdbg.hooks.pattern_matcher_sites import (
    PatternOps,
    children,
    expressions,
    look_through,
    nodes_near,
    site_of,
    target_of,
    targets_of,
)
from compdbg.hooks.pattern_matcher_words import is_op

_SHORT = 4
"""Of a pattern of so few ops, its anchor and one other are half."""
_MAX_GAP = 2
"""How many ops in a row may be other than the pattern's."""

_MANY = 3


class Part(Struct, frozen=True):
    """An op of a pattern, but for views, casts and getitem, and what it is computed from (indices)."""

    targets: frozenset[Any]
    below: tuple[int, ...]


class Evidence(NamedTuple):
    """Nodes of the pattern's other ops, and how many of them make a near miss.

    Fewer do not, where the others turn out to belong to a match elsewhere.
    """

    nodes: list[Any]
    enough: int


NONE = Evidence([], 1)


def parts_of(pattern: Any) -> tuple[Part, ...]:
    """The parts of a pattern, the anchor first: the rest is computed from it or shares what it uses."""
    exprs = [e for e in expressions(pattern) if is_op(e)]
    if not exprs:
        return ()
    anchor = look_through(exprs[0])
    real = [anchor, *(e for e in exprs if e is not anchor and not all(map(is_trivial, targets_of(e))))]
    at = {id(e): i for i, e in enumerate(real)}
    return tuple(Part(targets_of(e), tuple(dict.fromkeys(_below(e, at)))) for e in real)


def _below(expr: Any, at: dict[int, int]) -> Iterator[int]:
    for child in children(expr):
        if id(child) in at:
            yield at[id(child)]
        else:
            yield from _below(child, at)


def evidence(
    anchor: Any, stopped: Any, ops: PatternOps, parts: tuple[Part, ...], matched: list[Any], downstream: bool
) -> Evidence:
    """What stands at `anchor`, and near where matching stopped, that is the pattern's."""
    near = nodes_near(anchor, stopped, ops, matched, downstream)
    rare = any(not is_of_torch(target_of(node)) for node in near)
    if near and (rare or len(parts) <= _SHORT):
        return Evidence(near, 1)
    others = frozenset().union(*(p.targets for p in parts[1:])) - ops.anchor
    if len(parts) < 2 or any(not is_of_torch(target) for target in others):
        return NONE
    found, added = _Likeness(parts).at(site_of(anchor), matched)
    if near:
        return Evidence(near, 1) if 2 * len({anchor, *found, *near}) >= len(parts) else NONE
    to_spare = _may_differ(parts) - (len(parts) - 1 - len(found)) - added
    return Evidence(found, max(1, len(found) - to_spare)) if found and to_spare >= 0 else NONE


def _may_differ(parts: tuple[Part, ...]) -> int:
    """How many ops may be lacking or added, where only common ones are there to tell."""
    rare_anchor = not all(map(is_common, parts[0].targets))
    return max(rare_anchor, len(parts) // 3 if len(parts) >= _SHORT else 0)


class _Laid(NamedTuple):
    """A pattern laid over a graph: which node each part is, and how many nodes are in between."""

    nodes: frozenset[tuple[int, Any]] = frozenset()
    added: int = 0

    @property
    def value(self) -> int:
        return 2 * len(dict(self.nodes)) - self.added


class _Likeness:
    """Lays a pattern over the graph above an anchor, as well as it goes."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self.gap = min(_MAX_GAP, max(1, len(parts) // 3))
        self.known: dict[tuple[int, Any, int], _Laid] = {}

    def at(self, anchor: Any, matched: Iterable[Any]) -> tuple[list[Any], int]:
        """Nodes of the pattern's other parts, and how many stand between that are none."""
        laid = self._under(self.parts[0], anchor, self.gap)
        others = frozenset().union(*(part.targets for part in self.parts[1:]))
        told = (site_of(n) for n in matched)
        nodes = dict.fromkeys(n for n in told if target_of(n) in others and not is_trivial(target_of(n)))
        nodes |= dict.fromkeys(node for _, node in sorted(laid.nodes, key=lambda pair: pair[0]))
        nodes.pop(anchor, None)
        return list(nodes)[: len(self.parts) - 1], laid.added

    def _lay(self, at: int, node: Any, gap: int) -> _Laid:
        """The part at `node`, or with up to `gap` other nodes in its place or before it."""
        key = (at, node, gap)
        if key not in self.known:
            self.known[key] = _Laid()  # of a part that is computed from itself: no graph has that
            self.known[key] = max(self._ways(at, node, gap), key=lambda laid: laid.value)
        return self.known[key]

    def _ways(self, at: int, node: Any, gap: int) -> Iterator[_Laid]:
        part = self.parts[at]
        if target_of(node) in part.targets:
            under = self._under(part, node, self.gap)
            yield _Laid(under.nodes | {(at, node)}, under.added)
            return
        yield _Laid()
        if gap:
            yield self._under(part, node, gap - 1)
            yield from (self._lay(below, node, gap - 1) for below in part.below)
            if is_pointwise(target_of(node)):
                yield from (_one_more(self._lay(at, source, gap - 1)) for source in _sources(node))

    def _under(self, part: Part, node: Any, gap: int) -> _Laid:
        """What a part is computed from, over what a node is computed from, each node once."""
        return _best_pairs(part.below, _sources(node), lambda at, source: self._lay(at, source, gap))


def _one_more(laid: _Laid) -> _Laid:
    return _Laid(laid.nodes, laid.added + 1) if laid.nodes else laid


def _best_pairs(parts: tuple[int, ...], nodes: list[Any], lay: Callable[[int, Any], _Laid]) -> _Laid:
    laid = {(part, node): lay(part, node) for part in parts for node in nodes}
    useful = {pair: each for pair, each in laid.items() if each.nodes}
    best: list[_Laid] = []
    most = 0
    for chosen in _orders(nodes, len(parts)) if useful else ():
        taken = [useful[pair] for pair in zip(parts, chosen, strict=False) if pair in useful]
        worth = sum(each.value for each in taken)
        best, most = (taken, worth) if worth > most else (best, most)
    return _Laid(frozenset().union(*(each.nodes for each in best)), sum(each.added for each in best))


def _orders(nodes: list[Any], count: int) -> Iterable[tuple[Any, ...]]:
    """Ways to take `count` nodes, or None where there are fewer; of many only the one there is."""
    if max(count, len(nodes)) > _MANY:
        return [tuple(nodes)]
    return set(itertools.permutations([*nodes, *[None] * count], count))


def _sources(node: Any) -> list[Any]:
    """The nodes that one is computed from, views and casts looked through; inputs are none."""
    found: dict[Any, bool] = {}
    waiting = list(node.all_input_nodes)
    while waiting:
        source = site_of(waiting.pop(0))
        if source in found or target_of(source) is None:
            continue
        found[source] = not is_trivial(target_of(source))
        if not found[source]:
            waiting[:0] = source.all_input_nodes
    return [source for source, real in found.items() if real]
