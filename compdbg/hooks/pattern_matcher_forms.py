"""Patterns with nothing to match, though the graph holds what they compute in another form.

Kept conservative: the whole pattern must be there, connected, with an op under another overload
or as a torch function, or with a custom op written out as the ops that its own Python body,
traced, is made of, wired alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from compdbg.hooks.pattern_matcher_bodies import Body, body_of, consumers, producers
from compdbg.hooks.pattern_matcher_kinds import is_trivial
from compdbg.hooks.pattern_matcher_sites import HOPS, PatternOps
from compdbg.hooks.pattern_matcher_words import base_name, found, op_name


class Form(Struct, frozen=True):
    """`form` as in the event `PatternForm`, and a node to point at."""

    form: str
    wanted: str
    found: str
    node: Any


class GraphIndex:
    """The calls of a graph by what they call and by its bare name; made once an apply, if at all."""

    def __init__(self, graph: Any) -> None:
        self.by_target: defaultdict[Any, list[Any]] = defaultdict(list)
        self.by_name: defaultdict[str, list[Any]] = defaultdict(list)
        for node in graph.nodes:
            if node.op in ("call_function", "call_method"):
                self.by_target[node.target].append(node)
                self.by_name[base_name(node.target)].append(node)


def find_form(ops: PatternOps, calls: dict[Any, tuple[Any, ...]], index: GraphIndex) -> Form | None:
    """Another form of the pattern in the graph. `calls`: example arguments of the pattern's ops."""
    wanted = [ops.anchor, *(targets for targets in ops.others if not all(map(is_trivial, targets)))]
    missing = [targets for targets in wanted if not any(t in index.by_target for t in targets)]
    if not missing:
        return None
    return _renamed(wanted, missing, index) or _decomposed(wanted, missing, calls, index)


def _renamed(wanted: list[frozenset[Any]], missing: list[frozenset[Any]], index: GraphIndex) -> Form | None:
    names = [{base_name(t) for t in targets} for targets in wanted]
    if len(names) < 2:
        return None
    first = {base_name(t) for t in missing[0]}
    others = [n for n, targets in zip(names, wanted, strict=True) if targets is not missing[0]]
    for name in first:
        for node in index.by_name.get(name, ()):
            if _grow([node], others, HOPS) is not None:
                form = "overload" if hasattr(node.target, "_schema") else "torch-function"
                return Form(form, op_name(next(iter(missing[0]))), found(node), node)
    return None


def _decomposed(
    wanted: list[frozenset[Any]],
    missing: list[frozenset[Any]],
    calls: dict[Any, tuple[Any, ...]],
    index: GraphIndex,
) -> Form | None:
    bodies = [next((b for t in targets if (b := body_of(t, calls.get(t)))), None) for targets in missing]
    present = [{base_name(t) for t in targets} for targets in wanted if targets not in missing]
    if not bodies or not all(bodies):
        return None
    first, *others = [body for body in bodies if body is not None]
    rest = [*present, *({name} for body in others for name in body.names)]
    for chain in _chains(first, index):
        if _grow(chain, rest, HOPS) is not None:
            op = op_name(next(iter(missing[0])))
            return Form("decomposed", op, ", ".join(base_name(n.target) for n in sorted(chain)), max(chain))
    return None


def _chains(body: Body, index: GraphIndex) -> Iterator[list[Any]]:
    """Nodes of the graph that are wired like the body's ops, found from its rarest op on."""
    start = min(range(len(body.names)), key=lambda i: len(index.by_name.get(body.names[i], ())))
    for node in index.by_name.get(body.names[start], ()):
        placed = _place({start: node}, body)
        if placed is not None:
            yield list(placed.values())


def _place(placed: dict[int, Any], body: Body) -> dict[int, Any] | None:
    """Find a node for each op of the body that is not placed yet, beside those that are; or None."""
    if len(placed) == len(body.names):
        return placed
    for before, after in body.edges:
        if (before in placed) == (after in placed):
            continue
        known, open_ = (before, after) if before in placed else (after, before)
        beside = consumers(placed[known]) if known == before else producers(placed[known])
        for node in beside:
            fits = base_name(node.target) == body.names[open_] and node not in placed.values()
            if fits and _wired(open_, node, placed, body):
                found = _place({**placed, open_: node}, body)
                if found is not None:
                    return found
        return None
    return None


def _wired(op: int, node: Any, placed: dict[int, Any], body: Body) -> bool:
    """Whether a node reads, and is read by, the placed nodes as the body says."""
    read, reading = set(producers(node)), set(consumers(node))
    return all(placed[b] in read for b, a in body.edges if a == op and b in placed) and all(
        placed[a] in reading for b, a in body.edges if b == op and a in placed
    )


def _grow(start: list[Any], parts: list[set[str]], hops: int) -> list[Any] | None:
    """All of `parts` found as distinct nodes, each within `hops` of those found so far; or None."""
    group, open_parts = list(start), list(parts)
    while open_parts:
        for node in _around(group, hops):
            part = next((p for p in open_parts if node not in group and base_name(node.target) in p), None)
            if part is not None:
                group.append(node)
                open_parts.remove(part)
                break
        else:
            return None
    return group


def _around(group: list[Any], hops: int) -> list[Any]:
    reached, edge = dict.fromkeys(group), list(group)
    for _ in range(hops):
        edge = [m for n in edge for m in (*n.all_input_nodes, *n.users) if _is_call(m) and m not in reached]
        reached.update(dict.fromkeys(edge))
    return list(reached)


def _is_call(node: Any) -> bool:
    return node.op in ("call_function", "call_method")
