"""What a graph does besides computing values: each write to a tensor, in whatever form it stands.

The same write is an `auto_functionalized` call in a functional graph, the op itself after
decomposition, `copy_` into an input at the graph's end. An op that returns nothing but empty
tensors has no use but a hidden effect (a KV-cache update behind a dummy output): it counts too.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, NamedTuple

from compdbg.hooks.aliases import (
    FUNCTIONALIZED,
    TRITON_FUNCTIONAL,
    bases_of,
    hop_name,
    is_node,
    kernel_writes,
    mutated_arguments,
    nodes_in,
    origin,
    readers,
    root,
    schema_of,
    version_of,
    writes_first,
)
from compdbg.hooks.graphtext import target_name

COPY = "aten.copy_"
_IGNORED = frozenset(
    (
        "inductor.resize_storage_bytes_",
        "aten.set_",
        "aten.resize_",
        "fsdp.copy_",
        "fsdp.split_with_sizes_copy",
    )
)
_PLAIN_NAMESPACES = frozenset(("aten", "prims", "inductor", "_c10d_functional", "c10d", "profiler"))


class Effect(NamedTuple):
    """One write of one node to one tensor."""

    node: Any
    op: str
    argument: str
    base: Any
    """What is written to, as the node names it; None for a hidden effect."""
    origin: Any
    in_place: bool
    alive: bool
    """The program can tell: an input is written, or what is written is read later."""
    old: frozenset[Any]
    """Readers that want the value from before the write."""
    new: frozenset[Any]
    """Readers that want the value from after it."""
    back: frozenset[Any] = frozenset()
    """Of those: the `copy_` that carry it into the memory that a functional write stands for."""


def effects_of(graph: Any) -> list[Effect]:
    """Every write in the graph, in its order; empty, and found so quickly, for most graphs."""
    writing = [node for node in graph.nodes if _may_write(node)]
    if not writing:
        return []
    order = {node: at for at, node in enumerate(graph.nodes)}
    live = _live(graph, writing)
    return [effect for node in writing for effect in _effects(node, order, live)]


@functools.lru_cache(maxsize=4096)
def _writes(target: Any) -> bool:
    name = hop_name(target)
    if name:
        return name in FUNCTIONALIZED or name.startswith("triton_kernel_wrapper")
    schema = schema_of(target)
    return schema is not None and bool(schema.is_mutable) and op_name(target) not in _IGNORED


@functools.lru_cache(maxsize=4096)
def _is_custom(target: Any) -> bool:
    return schema_of(target) is not None and op_name(target).split(".")[0] not in _PLAIN_NAMESPACES


def _may_write(node: Any) -> bool:
    if node.op == "call_method":
        return writes_first(node)
    if node.op != "call_function":
        return False
    return _writes(node.target) or (_is_custom(node.target) and _is_empty(node.meta.get("val")))


def _is_empty(value: Any) -> bool:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    try:
        return bool(values) and all(0 in tuple(v.shape) for v in values)
    except (AttributeError, TypeError, RuntimeError):
        return False


def op_name(target: Any) -> str:
    """`cases.write_kv` for the op and each of its overloads: what the user called."""
    name = target_name(target)
    parts = name.split(".")
    return ".".join(parts[:2]) if schema_of(target) is not None and len(parts) >= 2 else name


def _effects(node: Any, order: dict[Any, int], live: set[Any]) -> list[Effect]:
    if is_functional(node):
        return _functional(node, order, live)
    if hop_name(node.target):
        written, op = _written_by_kernel(node), kernel_name(node)
    elif node.op == "call_method":
        written, op = [("self", node.args[0])], f"Tensor.{node.target}"
    else:
        written, op = _written(node), op_name(node.target)
    pairs = [(argument, base) for argument, value in written for base in nodes_in(value)]
    if not pairs:
        return [Effect(node, op, "", None, None, True, node in live, frozenset(), frozenset(node.users))]
    return [_in_place(node, op, argument, base, order) for argument, base in pairs]


def kernel_name(node: Any) -> str:
    """`triton kernel add_kernel` of a call of a user's Triton kernel."""
    index = node.kwargs.get("kernel_idx")
    table = getattr(sys.modules.get("torch._higher_order_ops.triton_kernel_wrap"), "kernel_side_table", None)
    kernel = getattr(table, "id_to_kernel", {}).get(index)
    while kernel is not None and not hasattr(kernel, "__name__"):
        kernel = getattr(kernel, "fn", None)
    return f"triton kernel {getattr(kernel, '__name__', index)}"


def _written_by_kernel(node: Any) -> list[tuple[str, Any]]:
    """What a kernel in place writes to is known from its functional form; if that was not seen, all."""
    given = node.kwargs.get("kwargs") or {}
    known = kernel_writes.get(node.kwargs.get("kernel_idx"))
    return [(name, value) for name, value in given.items() if known is None or name in known]


def copied_arguments(node: Any) -> set[str] | None:
    """Of a functional call: the arguments that will be copied; None before torch has decided."""
    if hop_name(node.target) == TRITON_FUNCTIONAL:
        return {str(name) for name in node.kwargs.get("tensors_to_clone") or ()}
    copied = node.meta.get("only_clone_these_tensors")
    if copied is None:
        return None
    return {argument for at, (argument, _) in enumerate(bases_of(node)) if at in copied or argument in copied}


def _functional(node: Any, order: dict[Any, int], live: set[Any]) -> list[Effect]:
    op = kernel_name(node) if hop_name(node.target) == TRITON_FUNCTIONAL else op_name(node.args[0])
    copied = copied_arguments(node)
    found = []
    for argument, base in bases_of(node):
        memory = origin(base)
        in_place = copied is not None and argument not in copied
        direct = [r for r in readers(base) if r is not node and not _only_writes(r, base)]
        outputs = [user for user in node.users if version_of(user) is base]
        new = {r for output in outputs for r in readers(output)}
        old = set(direct)
        if in_place:  # torch lets readers of the new value name the tensor itself
            new |= {r for r in direct if order[r] > order[node]}
            old -= new
        found.append(
            Effect(
                node=node,
                op=op,
                argument=argument,
                base=base,
                origin=memory,
                in_place=in_place,
                alive=node in live or (in_place and (is_input(memory) or bool(new))),
                old=frozenset(old),
                new=frozenset(new),
                back=frozenset(r for r in new if _copies_into(r, memory)),
            )
        )
    return found


def _copies_into(reader: Any, memory: Any) -> bool:
    return str(reader.target) == "aten.copy_.default" and root(reader.args[0]) is memory


def _in_place(node: Any, op: str, argument: str, base: Any, order: dict[Any, int]) -> Effect:
    start = root(base)
    here = order[node]
    all_readers = [r for r in readers(start) if r is not node and not _only_writes(r, start)]
    old = frozenset(r for r in all_readers if order[r] < here)
    new = frozenset((*(r for r in all_readers if order[r] > here), *node.users))
    beginning = origin(base)
    alive = (is_input(beginning) or bool(new)) and not (op == COPY and is_no_op(node))
    return Effect(node, op, argument, base, beginning, True, alive, old, new)


def _written(node: Any) -> list[tuple[str, Any]]:
    names = mutated_arguments(node.target)
    schema = schema_of(node.target)
    positions = {argument.name: at for at, argument in enumerate(schema.arguments)}
    found = []
    for name in names:
        at = positions[name]
        found.append((name, node.args[at] if at < len(node.args) else node.kwargs.get(name)))
    return found


def _only_writes(reader: Any, base: Any) -> bool:
    """`copy_` into the tensor overwrites it and does not read it."""
    if reader.op != "call_function" or op_name(reader.target) != COPY:
        return False
    return root(reader.args[0]) is root(base) and root(reader.args[1]) is not root(base)


def is_no_op(copy: Any) -> bool:
    """A `copy_` of a tensor to itself."""
    return is_node(copy.args[1]) and root(copy.args[0]) is root(copy.args[1])


def is_input(node: Any) -> bool:
    """Memory from outside the graph."""
    return node is not None and node.op in ("placeholder", "get_attr")


def _live(graph: Any, writing: list[Any]) -> set[Any]:
    """Nodes whose value reaches the output or a write in place."""
    waiting = [node for node in writing if not is_functional(node) and _writes_in_place(node)]
    waiting += [node for node in graph.nodes if node.op == "output"]
    live: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node not in live:
            live.add(node)
            waiting.extend(node.all_input_nodes)
    return live


def is_functional(node: Any) -> bool:
    """A call that returns the mutated tensors as new values."""
    name = hop_name(node.target)
    return name in FUNCTIONALIZED or name == TRITON_FUNCTIONAL


def _writes_in_place(node: Any) -> bool:
    return node.op == "call_method" or _writes(node.target)
