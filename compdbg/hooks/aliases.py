"""Which nodes of an FX graph name the same memory: views, and versions of a mutated tensor.

In a functional graph `auto_functionalized` returns each mutated tensor as a new value: a new
*version* of the same memory. A *root* is where views start, an *origin* where versions start.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any

FUNCTIONALIZED = ("auto_functionalized", "auto_functionalized_v2")
TRITON_FUNCTIONAL = "triton_kernel_wrapper_functional"
_VIEW_METHODS = frozenset(
    ("view", "reshape", "transpose", "permute", "t", "squeeze", "unsqueeze", "flatten", "narrow",
     "select", "expand", "view_as", "expand_as", "unflatten", "diagonal", "detach")
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def hop_name(target: Any) -> str:
    """The name of a higher-order operator; empty for all else."""
    is_hop = any(cls.__name__ == "HigherOrderOperator" for cls in type(target).__mro__)
    return str(getattr(target, "_name", "")) if is_hop else ""


@functools.lru_cache(maxsize=4096)
def schema_of(target: Any) -> Any:
    """The schema of an op overload (the first, of a packet); None for all else."""
    schema = getattr(target, "_schema", None)
    if schema is None and type(target).__name__ == "OpOverloadPacket":
        schema = getattr(getattr(target, target.overloads()[0]), "_schema", None)
    return schema


@functools.lru_cache(maxsize=4096)
def _aliases_first(target: Any) -> bool:
    """Whether an op's result is memory of its first argument: a view, or an op in place."""
    schema = schema_of(target)
    if schema is None or not schema.arguments or not schema.returns:
        return False
    first, result = schema.arguments[0].alias_info, schema.returns[0].alias_info
    return first is not None and result is not None


def is_node(value: Any) -> bool:
    return type(value).__name__ == "Node"


def nodes_in(value: Any) -> Iterable[Any]:
    """The nodes in an argument, which may be a list of them."""
    if is_node(value):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from nodes_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from nodes_in(item)


def returned_before_bases(op: Any) -> int:
    """How many outputs of an `auto_functionalized` come before the mutated tensors."""
    schema = schema_of(op)
    return max(1, len(schema.returns)) if schema is not None else 1


def mutated_arguments(op: Any) -> list[str]:
    """Names of the arguments that an op's schema declares as written to."""
    schema = schema_of(op)
    if schema is None:
        return []
    return [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]


def bases_of(node: Any) -> list[tuple[str, Any]]:
    """(name, node) of each tensor that a functionalized call mutates; a name may come twice (lists)."""
    name = hop_name(node.target)
    if name == "auto_functionalized_v2":
        bases = node.kwargs.get("_all_bases") or ()
        return [(_argument_of_base(node, i), base) for i, base in enumerate(bases) if is_node(base)]
    if name == "auto_functionalized":
        named = ((a, node.kwargs.get(a)) for a in mutated_arguments(node.args[0]))
        return [(a, base) for a, value in named for base in nodes_in(value)]
    given = node.kwargs.get("kwargs") or {}
    return [(a, given[a]) for a in written_by_kernel(node) if is_node(given.get(a))]


kernel_writes: dict[Any, dict[str, None]] = {}
"""Arguments that a Triton kernel writes to, by its number: a call says them only while all are copied."""


def written_by_kernel(node: Any) -> list[str]:
    """Arguments that a functional Triton call mutates, whether they are still copied or not."""
    known = kernel_writes.setdefault(node.kwargs.get("kernel_idx"), {})
    returned = node.meta.get("val")
    known |= dict.fromkeys(map(str, returned if isinstance(returned, dict) else ()))
    known |= dict.fromkeys(map(str, node.kwargs.get("tensors_to_clone") or ()))
    return list(known)


def _argument_of_base(node: Any, index: int) -> str:
    named = [
        key[1 : -len("_base_index")]
        for key, value in node.kwargs.items()
        if key.endswith("_base_index") and value == index
    ]
    return ", ".join(named) or f"base {index}"


def version_of(node: Any) -> Any:
    """For an output of a functionalized call: the tensor that the call mutated; else None."""
    if node.target is not operator.getitem or not is_node(node.args[0]):
        return None
    call, index = node.args
    name = hop_name(call.target)
    if name == TRITON_FUNCTIONAL:
        return (call.kwargs.get("kwargs") or {}).get(index)
    if name not in FUNCTIONALIZED or not isinstance(index, int):
        return None
    at = index - returned_before_bases(call.args[0])
    if name == "auto_functionalized_v2":
        bases = call.kwargs.get("_all_bases") or ()
    else:
        bases = [call.kwargs.get(a) for a in mutated_arguments(call.args[0])]
    return bases[at] if 0 <= at < len(bases) and is_node(bases[at]) else None


def viewed(node: Any) -> Any:
    """The tensor that a node is a view of (or writes to, and returns); None if it is none."""
    source = node.args[0] if node.args else None
    return source if is_node(source) and _is_view(node, source) else None


def _is_view(node: Any, source: Any) -> bool:
    if node.op == "call_method":
        return node.target in _VIEW_METHODS or writes_first(node)
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return _is_unpacked(node, source)
    if str(node.target) in ("aten.reshape.default", "aten._unsafe_view.default"):
        return _may_share(node, source)
    return _aliases_first(node.target)


def _is_unpacked(node: Any, source: Any) -> bool:
    """`getitem` of a split is a view of what was split; before functionalization, of a tensor too."""
    if version_of(node) is not None:
        return False
    if source.op == "call_function" and _aliases_first(source.target):
        return True
    return hasattr(source.meta.get("example_value"), "shape")


def _storage(node: Any) -> Any:
    value = node.meta.get("val")
    try:
        return value.untyped_storage()._cdata
    except (AttributeError, RuntimeError, NotImplementedError):
        return None


def _may_share(one: Any, other: Any) -> bool:
    a, b = _storage(one), _storage(other)
    return a is None or b is None or a == b


def root(node: Any) -> Any:
    """Where a chain of views starts."""
    while (source := viewed(node)) is not None:
        node = source
    return node


def origin(node: Any) -> Any:
    """Where a chain of views and versions starts: the memory's first name."""
    while True:
        node = root(node)
        base = version_of(node)
        if base is None:
            return node
        node = base


def readers(node: Any) -> list[Any]:
    """The nodes that use the value of `node` itself or through views, but the views."""
    found: dict[Any, None] = {}
    waiting = [node]
    while waiting:
        alias = waiting.pop()
        for user in alias.users:
            if viewed(user) is alias and not writes_first(user):
                waiting.append(user)
            else:
                found[user] = None
    return list(found)


@functools.lru_cache(maxsize=4096)
def _first_is_written(target: Any) -> bool:
    schema = schema_of(target)
    if schema is None or not schema.arguments:
        return False
    alias = schema.arguments[0].alias_info
    return alias is not None and bool(alias.is_write)


def writes_first(node: Any) -> bool:
    """Whether the node writes to its first argument."""
    if node.op == "call_method":
        return bool(node.target.endswith("_") and not node.target.endswith("__"))
    return node.op == "call_function" and _first_is_written(node.target)
