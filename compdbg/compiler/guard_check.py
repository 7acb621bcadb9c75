"""Checks dropped guards that were kept as data against live values: an evaluator of our own.

Sources are walked (`guard_sources`), and a condition on sizes can only calculate with ints.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from compdbg.compiler.guard_data import Condition, spoken
from compdbg.compiler.guard_sources import CannotFollow, Missing, Walk, parsed
from compdbg.compiler.guard_values import bare, has_name, is_plain, qualified, shown, tensor_properties


class Violation(NamedTuple):
    """A condition that does not hold, and what was seen instead."""

    condition: Condition
    seen: str


class Checker:
    """Checks conditions in one scope: `arguments` of a call, and the traced function's globals."""

    def __init__(self, conditions: Iterable[Condition], globals_: Mapping[str, Any]) -> None:
        self._globals = globals_
        self.conditions: list[Condition] = []
        self.cannot_follow: list[Condition] = []
        for condition in conditions:
            self._sort_in(condition)

    def violations(self, arguments: Mapping[str, Any]) -> list[Violation]:
        """Every condition that is false now."""
        walk = Walk(arguments, self._globals)
        found = []
        for condition in self.conditions:
            seen = _seen(condition, walk)
            if seen is not None:
                found.append(Violation(condition, seen))
        return found

    def _sort_in(self, condition: Condition) -> None:
        sources = list(condition.sizes.values()) or [condition.source]
        sources += [condition.value] if condition.operator == "same" else []
        try:
            for source in sources:
                parsed(source)
            if condition.operator == "shape":
                expression(condition.value)
        except CannotFollow:
            self.cannot_follow.append(condition)
        else:
            self.conditions.append(condition)


def _seen(condition: Condition, walk: Walk) -> str | None:
    """What is there instead of what was asked; None if the condition holds."""
    try:
        if condition.operator == "shape":
            sizes = {symbol: walk.value(source) for symbol, source in condition.sizes.items()}
            told = ", ".join(f"{spoken(condition.sizes[symbol])} = {size}" for symbol, size in sizes.items())
            return None if expression(condition.value)(sizes) else told
        value = walk.value(condition.source)
        if condition.operator == "same":
            return None if walk.value(condition.value) is value else "another object"
    except Missing as missing:
        return str(missing)
    return _OPERATORS[condition.operator](value, condition.value)


def _equals(value: Any, wanted: str) -> str | None:
    seen = shown(value) if is_plain(value) or has_name(value) else qualified(type(value))
    return None if seen == wanted else bare(seen)


def _named(value: Any, wanted: str) -> str | None:
    seen = qualified(value) if has_name(value) else f"an object of {qualified(type(value))}"
    if seen == wanted:
        return None
    return bare(seen) if bare(seen) != bare(wanted) else f"{bare(seen)} with other code"


def _of_type(value: Any, wanted: str) -> str | None:
    return _named(type(value), wanted)


def _length(value: Any, wanted: int) -> str | None:
    return None if len(value) == wanted else str(len(value))


def _keys(value: Any, wanted: list[str]) -> str | None:
    seen = [shown(key) if is_plain(key) else qualified(key) for key in value]
    return None if seen == wanted else ", ".join(seen)


def _contains(value: Any, wanted: str) -> str | None:
    return None if _is_in(wanted, value) else f"no {wanted}"


def _without(value: Any, unwanted: str) -> str | None:
    return f"{unwanted} is there" if _is_in(unwanted, value) else None


def _is_in(key: str, container: Any) -> bool:
    return any(key == shown(item) for item in container if is_plain(item) or has_name(item))


def _present(value: Any, _: None) -> str | None:
    return "None" if value is None else None


def _has(value: Any, attribute: str) -> str | None:
    return None if hasattr(value, attribute) else f"no attribute {attribute}"


def _lacks(value: Any, attribute: str) -> str | None:
    return f"an attribute {attribute}" if hasattr(value, attribute) else None


def _not_own(value: Any, attribute: str) -> str | None:
    present = attribute in getattr(value, "__dict__", {})
    return f"an attribute {attribute}" if present else None


def _tensor(value: Any, wanted: dict[str, Any]) -> str | None:
    if not hasattr(value, "shape") or not hasattr(value, "stride"):
        return bare(qualified(type(value)))
    seen = tensor_properties(value)
    different = [f"{name} {seen[name]}" for name in wanted if not _alike(seen[name], wanted[name])]
    return ", ".join(different) or None


def _alike(seen: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return len(seen) == len(wanted) and all(
            w is None or s is None or s == w for s, w in zip(seen, wanted, strict=True)
        )
    return bool(seen == wanted)


_OPERATORS: dict[str, Callable[[Any, Any], str | None]] = {
    "equals": _equals,
    "type": _of_type,
    "is": _named,
    "length": _length,
    "keys": _keys,
    "contains": _contains,
    "without": _without,
    "present": _present,
    "has": _has,
    "lacks": _lacks,
    "not own": _not_own,
    "tensor": _tensor,
}


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.Div: operator.truediv,
}  # fmt: skip

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Eq": operator.eq, "Ne": operator.ne, "Mod": operator.mod, "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Max": max, "Min": min,
    "And": lambda *each: all(each), "Or": lambda *each: any(each), "Not": operator.not_,
}  # fmt: skip

Sizes = Mapping[str, int]


@functools.lru_cache(maxsize=1 << 12)
def expression(text: str) -> Callable[[Sizes], Any]:
    """An expression over sizes as a function of them. Raises CannotFollow."""
    try:
        return _expression(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise CannotFollow(text) from None


def _expression(node: ast.expr) -> Callable[[Sizes], Any]:
    match node:
        case ast.Constant(value=int() as number):
            return lambda sizes: number
        case ast.Name(id=name):
            return lambda sizes: sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _applied(operator.neg, [inner])
        case ast.UnaryOp(operand=inner):
            return _applied(operator.not_, [inner])
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return _applied(_known(_BINARY, type(op)), [left, right])
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _applied(_known(_FUNCTIONS, name), arguments)
    raise CannotFollow(ast.dump(node))


def _known(table: Mapping[Any, Callable[..., Any]], name: Any) -> Callable[..., Any]:
    if name not in table:
        raise CannotFollow(str(name))
    return table[name]


def _applied(function: Callable[..., Any], nodes: list[ast.expr]) -> Callable[[Sizes], Any]:
    parts = [_expression(part) for part in nodes]
    return lambda sizes: function(*(part(sizes) for part in parts))
