"""A pattern as lines of code, inputs first: what it would look like in a graph's text."""

from __future__ import annotations

from typing import Any

from compdbg.hooks.pattern_matcher_words import base_name, is_op, value, wanted

MAX_STEPS = 64


def steps_of(pattern: Any) -> list[str]:
    """`rms = cases.rms.default(x, w, 1e-05)`, `round = aten.round.default(rms)`; at most MAX_STEPS."""
    lines: list[str] = []
    _name_of(pattern, {}, lines)
    return lines[:MAX_STEPS]


def _name_of(expr: Any, names: dict[int, str], lines: list[str]) -> str:
    """What the pattern's value is called; its line, and those before it, are added if they are new."""
    if isinstance(expr, (list, tuple)):
        return "[" + ", ".join(_name_of(item, names, lines) for item in expr) + "]"
    if not hasattr(expr, "_match") or id(expr) in names:
        return names.get(id(expr)) or value(expr)
    if outputs := getattr(expr, "outputs", None):
        return _name_of([output for output in outputs if output is not None], names, lines)
    inner = getattr(expr, "pattern", None) or getattr(expr, "inner_pattern", None)
    if inner is not None:
        return f"*{_name_of(inner, names, lines)}"
    return _name_of_op(expr, names, lines) if is_op(expr) else _placeholder(expr)


def _name_of_op(expr: Any, names: dict[int, str], lines: list[str]) -> str:
    words = [_name_of(argument, names, lines) for argument in getattr(expr, "args", ())]
    words += [f"{key}={_name_of(given, names, lines)}" for key, given in getattr(expr, "kwargs", {}).items()]
    name = names[id(expr)] = _free(base_name(expr.fns[0]), names)
    lines.append(f"{name} = {wanted_op(expr)}({', '.join(words)})")
    return name


def wanted_op(expr: Any) -> str:
    """The op's name, of which `getitem` and `auto_functionalized` are ops like others here."""
    text = wanted(expr)
    return "getitem" if text.startswith("item ") else text.partition("(")[0] or text


def _placeholder(expr: Any) -> str:
    name = getattr(expr, "name", None)
    return str(name) if name else {"Ignored": "*", "Arg": "_"}.get(type(expr).__name__, type(expr).__name__)


def _free(name: str, names: dict[int, str]) -> str:
    taken = set(names.values())
    if name not in taken:
        return name
    return next(f"{name}_{n}" for n in range(1, len(taken) + 2) if f"{name}_{n}" not in taken)
