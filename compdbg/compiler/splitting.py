"""Splits a graph at the operators that stay as they are: which node goes to which piece.

A splitting operator and what takes its outputs apart is a piece of its own; consecutive ones stand
together. What is left between them is compiled, unless it computes nothing: an allocation moves
into the compiled piece before it, and views and allocations that can't move are inlined, run as
they are between the pieces.
"""

from __future__ import annotations

import difflib
import operator
import re
from pathlib import Path
from typing import NamedTuple

import torch
from torch import fx

from compdbg.compiler.borders import LOCAL, localise_sizes, value_of
from compdbg.compiler.contexts import is_context_switch
from compdbg.events import Where

COMPILED, SPLITTING, INLINED = "compiled", "splitting", "inlined"

_ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
_VIEWS = (
    "view", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "expand", "t", "getitem",
    "flatten", "unflatten", "detach", "alias", "view_as", "split", "chunk", "unbind", "select", "narrow",
)  # fmt: skip


class Part(NamedTuple):
    """Nodes of one piece, in order, and what kind of piece they make."""

    kind: str
    nodes: list[fx.Node]
    split_ops: tuple[str, ...] = ()


class Unmatched(NamedTuple):
    """A name in `splitting_ops` that no node of the graph has."""

    name: str
    nearest: str | None
    """An operator of the graph that was perhaps meant; of a name that exists, one not in the list."""
    exists: bool
    """An operator of that name is registered; it only does not occur here."""


def partition(graph: fx.Graph, splitting_ops: list[str]) -> tuple[list[Part], list[fx.Node]]:
    """The parts of a graph, in order, and the sizes that it returns.

    Sizes that would cross a border are rewritten first.
    """
    localise_sizes(graph)
    wanted = frozenset(splitting_ops)
    parts: list[Part] = []
    home: dict[fx.Node, int] = {}
    waiting: list[fx.Node] = []
    for node in graph.nodes:
        if node.op in ("placeholder", "output", "get_attr") or is_context_switch(node):
            continue
        if node.meta.get(LOCAL):
            waiting.append(node)
            continue
        split = matched_name(node, wanted)
        index = _home_of_getitem(node, home, parts)
        if index is None:
            kind = SPLITTING if split else COMPILED
            if not parts or parts[-1].kind != kind:
                parts.append(Part(kind, []))
            index = len(parts) - 1
        if split:
            parts[index] = parts[index]._replace(split_ops=(*parts[index].split_ops, split))
        for each in (*_needed(waiting, node), node):
            home[each] = index
            parts[index].nodes.append(each)
        waiting = [each for each in waiting if each not in home]
    return _without_trivial(parts, home), waiting


def matched_name(node: fx.Node, wanted: frozenset[str]) -> str | None:
    """The name by which a node is one of the splitting operators."""
    return next((name for name in operator_names(node) if name in wanted), None)


def operator_names(node: fx.Node) -> tuple[str, ...]:
    """`ns::op` and `ns::op.overload` of a node's operator; for a function of torch, the aten name."""
    target = node.target
    if node.op != "call_function":
        return (f"aten::{target}",) if node.op == "call_method" else ()
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name, f"{target._schema.name}.{target._overloadname}"
    if isinstance(target, torch._ops.OpOverloadPacket):
        overloads = target.overloads()
        name = target._qualified_op_name
        return (name, f"{name}.{overloads[0]}") if len(overloads) == 1 else (name,)
    module = getattr(target, "__module__", None) or ""
    name = getattr(target, "__name__", "")
    return (f"aten::{name}",) if module.partition(".")[0] in ("torch", "_operator") else ()


def operator_name(node: fx.Node) -> str:
    """One name of a node's operator, in a word."""
    names = operator_names(node)
    return names[0] if names else str(getattr(node.target, "__name__", node.target))


_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>\S+)')
_LIBRARIES = ("site-packages", "dist-packages", str(Path(torch.__file__).parent))


def line_of(node: fx.Node) -> Where | None:
    """The program's line that a node comes from."""
    for found in reversed(list(_FRAME.finditer(node.meta.get("stack_trace") or ""))):
        if not any(library in found["file"] for library in _LIBRARIES):
            return Where(found["file"], int(found["line"]), found["function"])
    return None


def unmatched(graph: fx.Graph, splitting_ops: list[str]) -> list[Unmatched]:
    """The names that match no node, each with the nearest name that would."""
    here = {name for node in graph.nodes for name in operator_names(node)}
    free = here - set(splitting_ops)
    lacking = ((name, _exists(name)) for name in splitting_ops if name not in here)
    return [Unmatched(name, _nearest(name, free if exists else here), exists) for name, exists in lacking]


def _nearest(name: str, here: set[str]) -> str | None:
    """The name in the graph that was probably meant: another spelling, the same namespace's nearest."""
    spelled = name.replace(".", "::", 1) if "::" not in name else name
    if spelled in here:
        return spelled
    namespace, _, own = spelled.partition("::")
    siblings = [other.partition("::")[2] for other in here if other.startswith(f"{namespace}::")]
    longer = sorted((s for s in siblings if len(own) > 2 and s.startswith(own)), key=len)
    near = longer or difflib.get_close_matches(own, siblings, 1, 0.7)
    if near:
        return f"{namespace}::{near[0]}"
    return next(iter(difflib.get_close_matches(spelled, here, 1, 0.75)), None)


def _exists(name: str) -> bool:
    namespace, _, rest = name.partition("::")
    if not rest:
        return False
    packet = getattr(getattr(torch.ops, namespace), rest.partition(".")[0], None)
    return packet is not None


def _home_of_getitem(node: fx.Node, home: dict[fx.Node, int], parts: list[Part]) -> int | None:
    """Taking apart the outputs of a splitting operator belongs to its piece: no tuple crosses."""
    if node.op != "call_function" or node.target is not operator.getitem:
        return None
    source = node.args[0]
    if not isinstance(source, fx.Node) or isinstance(value_of(source), torch.Tensor):
        return None
    return home.get(source)


def _needed(waiting: list[fx.Node], node: fx.Node) -> list[fx.Node]:
    """Size expressions that `node` uses, and those that they use, in order."""
    needed: set[fx.Node] = set()
    queue = list(node.all_input_nodes)
    while queue:
        source = queue.pop()
        if source in waiting and source not in needed:
            needed.add(source)
            queue.extend(source.all_input_nodes)
    return [each for each in waiting if each in needed]


def _without_trivial(parts: list[Part], home: dict[fx.Node, int]) -> list[Part]:
    """Compiled parts without any compute dissolved: moved into the one before, or inlined."""
    before: int | None = None
    for index, part in enumerate(parts):
        if part.kind != COMPILED:
            continue
        if not all(_is_trivial(node) for node in part.nodes):
            before = index
        elif before is not None and _can_move(part, before, home):
            parts[before].nodes.extend(part.nodes)
            home.update(dict.fromkeys(part.nodes, before))
            parts[index] = part._replace(nodes=[])
        else:
            parts[index] = part._replace(kind=INLINED)
    return [part for part in parts if part.nodes]


def _is_trivial(node: fx.Node) -> bool:
    """An allocation, a view or a size: nothing that a compiler could make faster."""
    if node.meta.get(LOCAL):
        return True
    return _is_allocation(node) or _plain_name(node) in _VIEWS


def _is_allocation(node: fx.Node) -> bool:
    return bool(node.meta.get(LOCAL)) or _plain_name(node) in _ALLOCATIONS


def _plain_name(node: fx.Node) -> str:
    names = operator_names(node)
    return names[0].rpartition("::")[2].partition(".")[0] if names else ""


def _can_move(part: Part, target: int, home: dict[fx.Node, int]) -> bool:
    """Only allocations: a view, moved before a write to its base, may turn out to be a copy."""
    if not all(_is_allocation(node) for node in part.nodes):
        return False
    mine = set(part.nodes)
    sources = {s for node in part.nodes for s in node.all_input_nodes if s not in mine}
    return all(source.op in ("placeholder", "get_attr") or home[source] <= target for source in sources)
