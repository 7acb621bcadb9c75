"""How sub-patterns, nodes and constants are written in a near miss."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

MAX_VALUE = 80


def base_name(target: Any) -> str:
    """`add` of `aten.add.Tensor`, `torch.add` and the method `add`."""
    if isinstance(target, str):
        return target
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return str(schema.name).rpartition("::")[2]
    return str(getattr(target, "__name__", target))


def op_name(target: Any) -> str:
    """What an op is called in findings: `aten.add.Tensor`, `cases.rms.default`, `torch.relu`."""
    if isinstance(target, str):
        return f".{target}()"
    if target is operator.getitem:
        return "getitem"
    if hasattr(target, "_schema") or hasattr(target, "op_overloads"):
        return str(target)
    plain = str(getattr(target, "__name__", ""))
    if plain and getattr(sys.modules.get("torch"), plain, None) is target:
        return f"torch.{plain}"
    module = str(getattr(target, "__module__", "") or "")
    return f"{module}.{getattr(target, '__qualname__', None) or plain or target}".lstrip(".")


def is_op(expr: Any) -> bool:
    """A sub-pattern that stands for one call in the graph."""
    return hasattr(expr, "fns") and hasattr(expr, "users")


def is_node(value: Any) -> bool:
    """An FX node, rather than a constant among its arguments."""
    return hasattr(value, "all_input_nodes")


def is_auto_functionalized(target: Any) -> bool:
    name: str = getattr(target, "__name__", "")
    return name in ("auto_functionalized", "auto_functionalized_v2")


def callee(node: Any) -> Any:
    """What a node calls; of a module, its class, as torch's matcher compares it."""
    if node.op != "call_module":
        return node.target
    module = node.graph.owning_module
    for step in str(node.target).split("."):
        module = getattr(module, step, None)
    return type(module)


def wanted(pattern: Any) -> str:
    """A sub-pattern in a word: an op's name, an argument's name, a constant."""
    if not is_op(pattern):
        named = getattr(pattern, "name", None) or type(pattern).__name__
        return str(named) if hasattr(pattern, "_match") else value(pattern)
    fns = pattern.fns
    args: Any = getattr(pattern, "args", ())
    if operator.getitem in fns and len(args) == 2 and is_op(args[0]):
        return f"item {value(args[1])} of {wanted(args[0])}"
    if is_auto_functionalized(fns[0]) and args and not hasattr(args[0], "_match"):
        return f"{base_name(fns[0])}({op_name(args[0])})"
    more = f" (or {len(fns) - 1} more)" if len(fns) > 1 else ""
    return op_name(fns[0]) + more


def found(node: Any) -> str:
    """What stands in the graph: an op's name, an input, a constant."""
    if not is_node(node):
        return f"the constant {value(node)}"
    if node.op in ("placeholder", "output", "get_attr"):
        edges = {"placeholder": f"graph input {node.name}", "output": "graph output"}
        return edges.get(node.op, f"attribute {node.target}")
    if node.target is operator.getitem and is_node(node.args[0]):
        return f"item {value(node.args[1])} of {found(node.args[0])}"
    if is_auto_functionalized(node.target) and node.args:
        return f"{base_name(node.target)}({op_name(node.args[0])})"
    return op_name(callee(node))


def described(node: Any) -> str:
    """`round_1 (aten.round.default)`."""
    return f"{node.name} ({found(node)})" if is_node(node) else value(node)


def value(constant: Any) -> str:
    text = str(constant.name) if is_node(constant) else repr(constant)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def plural(count: Any, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def argument_names(node: Any) -> Callable[[int], str]:
    """From an argument's position to its name in the op's schema."""
    schema = getattr(node.target, "_schema", None)
    known = [a.name for a in schema.arguments] if schema is not None else []
    return lambda i: str(known[i]) if i < len(known) else f"argument {i}"


def argument_of(pattern: Any, node: Any, given: Any, expected: Any) -> str:
    """The name of the argument in which the constant `given` stands where `expected` was wanted."""
    names = argument_names(node)
    pairs = [(names(i), p, n) for i, (p, n) in enumerate(zip(pattern.args, node.args, strict=False))]
    pairs += [(k, pattern.kwargs[k], node.kwargs.get(k)) for k in pattern.kwargs]
    for name, p, n in pairs:
        if any(a is given and b is expected for b, a in zip(_flat(p), _flat(n), strict=False)):
            return name
    return "argument"


def _flat(nested: Any) -> Iterator[Any]:
    if isinstance(nested, (list, tuple)):
        for item in nested:
            yield from _flat(item)
    elif isinstance(nested, dict):
        for item in nested.values():
            yield from _flat(item)
    else:
        yield nested
