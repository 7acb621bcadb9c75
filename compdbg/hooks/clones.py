"""Copies that functionalization left in: a mutated argument is cloned, and copied back, on each call.

Watched where Inductor decides: after its reinplacing pass, what is still functional is copied.
A copy is not reported where the program asked for it: it clones the tensor itself, or the value
from before the write is returned or saved for the backward.
"""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import CloneKept
from compdbg.hooks import artifacts
from compdbg.hooks.aliases import bases_of, origin, readers, root
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.current import compile_id, graph_base, graph_name
from compdbg.hooks.effects import (
    COPY,
    copied_arguments,
    is_functional,
    is_input,
    kernel_name,
    op_name,
)
from compdbg.hooks.graphtext import target_name
from compdbg.hooks.userline import of_node

NAME = "clones"
REINPLACE = Target("torch._inductor.fx_passes.reinplace:reinplace_inplaceable_ops_core", ("graph",))
INPLACEABLE = Target("torch._inductor.fx_passes.reinplace:inplaceable_ops")
JOINT_PASSES = Target("torch._inductor.compile_fx:_recursive_joint_graph_passes", ("gm",))

_COPIES = {"aten.clone.default": 0, "aten._to_copy.default": 0, "aten.copy.default": 1}
_here = threading.local()


class _Kept(NamedTuple):
    """A functional write whose tensor will be copied."""

    node: Any
    op: str
    argument: str
    base: Any


def _users_own_copies(graph: Any) -> frozenset[str]:
    """Names of the tensors that the program itself copies, from the graph before any pass."""
    copied = set()
    for node in graph.nodes:
        at = _COPIES.get(str(node.target)) if node.op == "call_function" else None
        if at is not None and len(node.args) > at and hasattr(node.args[at], "op"):
            copied.add(origin(node.args[at]).name)
            copied.add(root(node.args[at]).name)
    return frozenset(copied)


def _around_joint_passes(original: Callable[..., Any]) -> Callable[..., Any]:
    def joint_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.active():
            with contained(NAME):
                _remember_own_copies(gm)
        return original(gm, *args, **kwargs)

    return joint_passes


def _remember_own_copies(gm: Any) -> None:
    """For the compile that is under way; what was known of others at the same name is forgotten."""
    if gm.graph in getattr(_here, "seen", ()):
        return
    graphs = [m.graph for m in gm.modules() if hasattr(getattr(m, "graph", None), "nodes")]
    _here.seen = weakref.WeakSet(graphs)
    _here.copies = (graph_base(), frozenset().union(*map(_users_own_copies, graphs)))


def _around_reinplace(original: Callable[..., Any]) -> Callable[..., Any]:
    def reinplace_inplaceable_ops_core(graph: Any) -> Any:
        result = original(graph)
        if probe.active():
            with contained(NAME):
                _report(graph)
        return result

    return reinplace_inplaceable_ops_core


def _report(graph: Any) -> None:
    kept = list(_kept(graph))
    if not kept:
        return
    of, own = getattr(_here, "copies", ("", frozenset()))
    if of != graph_base():
        own = frozenset()
    order = {node: at for at, node in enumerate(graph.nodes)}
    for one in kept:
        reason = _reason(one, order)
        if reason is None or {origin(one.base).name, root(one.base).name} & own:
            continue
        memory = _updated(origin(one.base))
        count = copied_bytes(one.base.meta.get("val"), dense=not is_functional(one.node))
        event = CloneKept(
            graph=graph_name(),
            op=one.op,
            argument=one.argument,
            base=memory.name,
            bytes=count or 0,
            reason=reason,
            where=of_node(one.node),
            compile_id=compile_id(),
            input=is_input(memory),
        )
        probe.emit(event)
        artifacts.note(event)


def _scatters() -> Any:
    """Updates of a part that Inductor can do in place: `index_put`, assignment to a slice."""
    return getattr(sys.modules["torch._inductor.fx_passes.reinplace"], "inplaceable_ops", {})


def _kept(graph: Any) -> Iterable[_Kept]:
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if is_functional(node):
            yield from _cloned_bases(node)
        elif node.target in _scatters() and not _is_slice(node):
            memory = _updated(node)
            if is_input(memory) and _is_copied_back(node, memory):
                yield _Kept(node, op_name(node.target), "self", node.args[0])


def _cloned_bases(node: Any) -> Iterable[_Kept]:
    op = kernel_name(node) if "kernel_idx" in node.kwargs else op_name(node.args[0])
    copied = copied_arguments(node)
    for argument, base in bases_of(node):
        if copied is None or argument in copied:
            yield _Kept(node, op, argument, base)


def _is_slice(node: Any) -> bool:
    """An assignment to a slice: where it stays functional, it is fused and no copy is made."""
    return target_name(node.target).endswith("_generalized_scatter")


def _updated(node: Any) -> Any:
    """The memory that a chain of functional updates starts from."""
    while node.op == "call_function" and node.target in _scatters():
        node = origin(node.args[0])
    return node


def _is_copied_back(node: Any, memory: Any) -> bool:
    """Whether the updated value, through views and further updates, is copied into the memory again."""
    waiting, seen = [node], {node}
    while waiting:
        for user in readers(waiting.pop()):
            if str(user.target) == "aten.copy_.default" and root(user.args[0]) is memory:
                return True
            if user.target in _scatters() and user not in seen:
                seen.add(user)
                waiting.append(user)
    return False


def _reason(one: _Kept, order: dict[Any, int]) -> str | None:
    """Why torch copies; None where the program wants the value from before, so that it must."""
    old = _old_readers(one, order)
    memory = _updated(origin(one.base))
    sharing = _shares_with(one)
    if any(r.op == "output" for r in old) or (old and not is_functional(one.node)):
        return None
    if is_input(memory) and not any(_writes_back(user, memory) for user in memory.users) and not sharing:
        return None
    return _in_words(one, memory, sharing, old)


def _old_readers(one: _Kept, order: dict[Any, int]) -> list[Any]:
    """Who reads, after the write, what was there before it."""
    behind = [r for r in readers(root(one.base)) if r is not one.node and order[r] > order[one.node]]
    return [r for r in behind if op_name(r.target) != COPY and r.target not in _scatters()]


def _in_words(one: _Kept, memory: Any, sharing: str, old: list[Any]) -> str:
    if sharing:
        return f"the call also mutates {sharing}, which shares its memory"
    if old:
        where = of_node(old[0])
        place = f" (line {where.line})" if where else ""
        return f"{target_name(old[0].target)}{place} was moved behind the write, and reads the old value"
    if is_input(memory) and memory is not one.base:
        return "it is a view of an input"
    return "torch could not prove that nothing else needs the old value"


def _shares_with(one: _Kept) -> str:
    mine = _memory(one.base)
    bases = bases_of(one.node) if is_functional(one.node) else []
    others = [argument for argument, base in bases if base is not one.base and _memory(base) == mine]
    return ", ".join(f"`{argument}`" for argument in others) if mine is not None else ""


def _memory(node: Any) -> Any:
    try:
        return node.meta["val"].untyped_storage()._cdata
    except (KeyError, AttributeError, RuntimeError, NotImplementedError):
        return None


def _writes_back(user: Any, memory: Any) -> bool:
    return str(user.target) == "aten.copy_.default" and user.args[0] is memory


def copied_bytes(value: Any, *, dense: bool) -> int | None:
    """What a copy of a tensor takes: its elements, or with its strides all up to its last element."""
    try:
        sizes, strides = [_int(s) for s in value.shape], [_int(s) for s in value.stride()]
        if dense or 0 in sizes:
            return math.prod(sizes) * int(value.element_size())
        last = _int(value.storage_offset()) + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        return int((last + 1) * value.element_size())
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None


def _int(size: Any) -> int:
    """A size, or of a symbolic one the value it was traced with."""
    return size if isinstance(size, int) else int(size.node.hint)


def _install_reinplace(patches: Patches) -> None:
    patches.wrap(REINPLACE, _around_reinplace)


def _install_joint(patches: Patches) -> None:
    patches.wrap(JOINT_PASSES, _around_joint_passes)


HOOK = Hook(
    NAME,
    (
        Part("torch._inductor.fx_passes.reinplace", _install_reinplace),
        Part("torch._inductor.compile_fx", _install_joint),
    ),
    (REINPLACE, INPLACEABLE, JOINT_PASSES),
    proof=(CloneKept,),
)
