"""Sites: what an anchor really is, which ops a pattern has, and whether another of them is near.

Ops are looked through: the `getitem` of an `auto_functionalized` op is that op. Patterns and
nodes are read by their attributes, so that nothing of torch needs to be imported here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from compdbg.hooks.pattern_matcher_kinds import is_common, is_trivial
from compdbg.hooks.pattern_matcher_words import callee, is_auto_functionalized, is_node, is_op

HOPS = 4
"""How far from where matching stopped another op of the pattern may stand, for a miss."""


class PatternOps(Struct, frozen=True):
    """The ops of one pattern, looked through: its anchor's targets, and those of each other op."""

    anchor: frozenset[Any]
    others: tuple[frozenset[Any], ...]
    telling: frozenset[Any]
    """Targets that show the pattern's presence by themselves: of ops that are no view, cast or getitem,
    and not common. An op like the anchor shows nothing where the pattern has others."""
    nodes: int
    first: frozenset[Any]
    """What torch looks for in the graph: the anchor's targets, not looked through."""
    beside: frozenset[Any] = frozenset()
    """Telling targets of outputs that the anchor is not computed from: its siblings."""


def ops_of(pattern: Any) -> PatternOps:
    """The ops of a pattern; its anchor is the first output's."""
    exprs = [e for e in expressions(pattern) if is_op(e)]
    first = exprs[0] if exprs else None
    ops: list[frozenset[Any]] = []
    seen: set[int] = set()
    for expr in exprs:
        through = look_through(expr)
        if id(through) not in seen:
            seen.add(id(through))
            ops.append(targets_of(through))
    anchor = targets_of(look_through(first)) if first is not None else frozenset()
    targets = frozenset(first.fns) if first is not None else frozenset()
    telling = _telling(anchor, ops[1:])
    return PatternOps(anchor, tuple(ops[1:]), telling, len(exprs), targets, _siblings(pattern) & telling)


def _telling(anchor: frozenset[Any], others: list[frozenset[Any]]) -> frozenset[Any]:
    real = [targets for targets in others if not all(map(is_trivial, targets))]
    unlike = [targets for targets in real if not targets & anchor]
    return frozenset().union(*(t for t in unlike or real if not all(map(is_common, t))))


def _siblings(pattern: Any) -> frozenset[Any]:
    outputs = [o for o in getattr(pattern, "outputs", None) or () if o is not None]
    if len(outputs) < 2:
        return frozenset()
    above = set(map(id, expressions(outputs[0])))
    through = [look_through(o) for o in outputs[1:] if is_op(o)]
    return frozenset().union(*(targets_of(o) for o in through if id(o) not in above))


def expressions(pattern: Any) -> Iterator[Any]:
    """Every distinct sub-pattern, outputs first."""
    seen: set[int] = set()
    waiting = [pattern]
    while waiting:
        expr = waiting.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        yield expr
        waiting.extend(reversed(children(expr)))


def children(expr: Any) -> list[Any]:
    """The direct sub-patterns of a pattern expression."""
    flat = getattr(expr, "flat_args_kwargs", None)
    found = list(flat[0]) if flat is not None else []
    found += getattr(expr, "outputs", None) or []
    found += [getattr(expr, name, None) for name in ("pattern", "inner_pattern")]
    return [e for e in found if hasattr(e, "_match")]


def look_through(expr: Any) -> Any:
    """The sub-pattern that a `getitem` takes its item from."""
    while operator.getitem in expr.fns and is_op(next(iter(getattr(expr, "args", ())), None)):
        expr = expr.args[0]
    return expr


def targets_of(expr: Any) -> frozenset[Any]:
    """What a sub-pattern calls, through `auto_functionalized`."""
    args = getattr(expr, "args", ())
    if args and is_auto_functionalized(expr.fns[0]) and not hasattr(args[0], "_match"):
        return frozenset((args[0],))
    return frozenset(expr.fns)


def site_of(node: Any) -> Any:
    """The node that an anchor stands for: what a `getitem` takes its item from."""
    while node.target is operator.getitem and is_node(node.args[0]):
        node = node.args[0]
    return node


def target_of(node: Any) -> Any:
    """The op that a node calls, through `getitem` and `auto_functionalized`; None for inputs."""
    node = site_of(node)
    if node.op not in ("call_function", "call_method", "call_module"):
        return None
    if is_auto_functionalized(node.target) and node.args:
        return node.args[0]
    return callee(node)


def is_anchor(node: Any, ops: PatternOps) -> bool:
    """Whether a node that torch tries is, looked through, the pattern's anchor op at all."""
    return target_of(node) in ops.anchor or node.target in ops.anchor


def nodes_near(
    anchor: Any, stopped: Any, ops: PatternOps, matched: Iterable[Any], downstream: bool
) -> list[Any]:
    """Besides the anchor, the nodes of other ops of the pattern: matched, or close to where it stopped.

    Looked for in what the anchor is computed from, and for the anchor's siblings in what else takes a
    view of the same value; `downstream`, for a further output of the pattern, in what is computed from
    where matching stopped.
    """
    if not ops.telling:
        return []
    site = site_of(anchor)
    inside = None if downstream else _ancestors(anchor, ops.nodes + HOPS)
    reached, edge = {stopped: None}, [stopped]
    for _ in range(HOPS):
        edge = [n for n in dict.fromkeys(_next_to(edge, inside)) if n not in reached]
        reached.update(dict.fromkeys(edge))
    close = dict.fromkeys([*matched, *reached])
    near = [n for n in close if target_of(n) in ops.telling and site_of(n) is not site]
    if near or downstream or not ops.beside:
        return near
    return [n for n in _beside(stopped) if target_of(n) in ops.beside and site_of(n) is not site]


def _beside(stopped: Any) -> list[Any]:
    """What else is computed from the value that `stopped` is, or takes a view of, through views only."""
    source, hops = stopped, HOPS
    while hops and source.all_input_nodes and is_trivial(target_of(source)):
        source, hops = source.all_input_nodes[0], hops - 1
    reached, edge = {source: None}, [source]
    for _ in range(hops):
        edge = [user for node in edge for user in node.users if user not in reached]
        reached.update(dict.fromkeys(edge))
        edge = [node for node in edge if is_trivial(target_of(node))]
    return list(reached)


def _next_to(edge: list[Any], inside: set[Any] | None) -> Iterator[Any]:
    for node in edge:
        if inside is None:
            yield from node.users
        else:
            yield from node.all_input_nodes
            yield from (user for user in node.users if user in inside)


def _ancestors(anchor: Any, depth: int) -> set[Any]:
    found, edge = {anchor}, [anchor]
    for _ in range(depth):
        edge = [n for node in edge for n in node.all_input_nodes if n not in found]
        found.update(edge)
    return found
