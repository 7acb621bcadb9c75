"""The entries of a pattern-matcher pass: what each is called, where it comes from, whose it is."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FrameType
from typing import Any

from msgspec import Struct

from compdbg.events import Pattern, Where
from compdbg.hooks.pattern_matcher_likeness import Part, parts_of
from compdbg.hooks.pattern_matcher_owner import is_torchs_own
from compdbg.hooks.pattern_matcher_sites import PatternOps, ops_of
from compdbg.hooks.pattern_matcher_steps import steps_of
from compdbg.hooks.pattern_matcher_words import op_name
from compdbg.hooks.userline import of_code


class EntryInfo(Struct):
    """What is known of one registered entry; holds nothing of the entry alive but its ops."""

    name: str
    where: Where | None
    ops: PatternOps
    parts: tuple[Part, ...]
    custom: bool
    steps: list[str]
    retraces: bool
    """torch checks a loose match again, traced at the real shapes (`register_replacement`)."""

    def as_event(self) -> Pattern:
        return Pattern(
            name=self.name,
            where=self.where,
            anchors=sorted(map(op_name, self.ops.anchor))[:8],
            ops=sorted({op_name(next(iter(targets))) for targets in self.ops.others if targets}),
            nodes=self.ops.nodes,
            steps=self.steps,
        )


def distinct_entries(matcher_pass: Any) -> Iterator[Any]:
    """Every entry of a pass once; an entry of several ops is listed under each."""
    seen: set[int] = set()
    for entries in list(matcher_pass.patterns.values()):
        for entry in list(entries):
            if id(entry) not in seen:
                seen.add(id(entry))
                yield entry


def describe_entries(entries: list[Any]) -> list[EntryInfo]:
    """What is known of the entries of one pass, their names made unique."""
    functions = [function_of(entry) for entry in entries]
    names = unique_names([_name(e, f) for e, f in zip(entries, functions, strict=True)], functions)
    return [
        EntryInfo(
            name=name,
            where=of_code(function.__code__) if hasattr(function, "__code__") else None,
            ops=ops_of(entry.pattern),
            parts=parts_of(entry.pattern),
            custom=is_custom(entry),
            steps=steps_of(entry.pattern),
            retraces=torch_check(entry) is not None,
        )
        for entry, function, name in zip(entries, functions, names, strict=True)
    ]


def unique_names(names: list[str], functions: list[Any]) -> list[str]:
    """Equal names are told apart by the constants that their functions close over, else by number."""
    unique = list(names)
    for name in {n for n in names if names.count(n) > 1}:
        same = [i for i, n in enumerate(names) if n == name]
        told = _differences([_constants(functions[i]) for i in same])
        apart = len(set(told)) == len(told)
        for number, i in enumerate(same, 1):
            unique[i] = f"{name}({told[number - 1]})" if apart else f"{name}#{number}"
    return unique


def _differences(constants: list[dict[str, str]]) -> list[str]:
    """What the functions of one name close over, as far as it differs among them."""
    keys = sorted({key for each in constants for key in each})
    differing = [key for key in keys if len({each.get(key) for each in constants}) > 1]
    return [", ".join(f"{key}={each[key]}" for key in differing if key in each) for each in constants]


def is_custom(entry: Any) -> bool:
    """Registered from outside torch: its search function, handler or check is not torch's."""
    functions = (function_of(entry), check_of(entry))
    codes = (getattr(f, "__code__", None) for f in functions)
    return any(code is not None and not is_torchs_own(code.co_filename) for code in codes)


def function_of(entry: Any) -> Any:
    """The search function of a replacement, the handler of another entry; unwrapped."""
    check = torch_check(entry)
    if check is not None:
        return unwrapped(cells(check).get("search_fn"))
    return unwrapped(getattr(entry, "handler", None) or original_check(entry))


def replacement_place(entry: Any) -> Where | None:
    """Where what an entry puts in is defined: its replacement function, or its handler."""
    check = torch_check(entry)
    handler = getattr(entry, "handler", None)
    function = unwrapped(handler if check is None else cells(check).get("replace_fn"))
    return of_code(function.__code__) if hasattr(function, "__code__") else None


def check_of(entry: Any) -> Any:
    """The user's own extra check of an entry."""
    check = torch_check(entry)
    return unwrapped(original_check(entry) if check is None else cells(check).get("extra_check"))


def torch_check(entry: Any) -> Any:
    """The `check_fn` that `register_replacement` made; None for entries of another kind."""
    check = original_check(entry)
    code = getattr(check, "__code__", None)
    made = code is not None and code.co_name == "check_fn" and "search_fn" in code.co_freevars
    return check if made else None


def original_check(entry: Any) -> Any:
    """An entry's `extra_check`, without our own wrapper."""
    return getattr(entry.extra_check, "watched_check", entry.extra_check)


def cells(function: Any) -> dict[str, Any]:
    """The variables that a function closes over."""
    found: dict[str, Any] = {}
    code = getattr(function, "__code__", None)
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or (), strict=False
    ):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def unwrapped(function: Any) -> Any:
    """The function itself: inside partials, bound methods, `wraps`, and torch's wrapper of methods."""
    for _ in range(8):
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__func__"):
            function = function.__func__
        elif _wraps_method(function):
            function = cells(function).get("fn")
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return type(function).__call__ if callable(function) and not hasattr(function, "__code__") else function


def _wraps_method(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_freevars == ("fn",) and is_torchs_own(code.co_filename)


def function_name(function: Any) -> str:
    """`RMSPattern.register.pattern`, `lambda`: a qualified name without `<locals>`."""
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).replace(".<locals>", "").replace("<lambda>", "lambda")


def _name(entry: Any, function: Any) -> str:
    return str(getattr(entry, "pattern_name", None) or function_name(function))


def _constants(function: Any) -> dict[str, str]:
    """The plain values that a function closes over, and those of the objects it closes over."""
    found: dict[str, str] = {}
    for name, value in cells(function).items():
        if _is_plain(value):
            found[name] = str(value)
        elif not isinstance(value, type) and not callable(value):
            found[name] = type(value).__name__
            attributes = getattr(value, "__dict__", {})
            found |= {n: str(v) for n, v in list(attributes.items()) if _is_plain(v)}
    return found


def _is_plain(value: Any) -> bool:
    return isinstance(value, (int, float, str, bool)) or type(value).__name__ == "dtype"


def made_in_torch(frame: FrameType | None) -> bool:
    """Whether the nearest real frame, past generated code and the pattern matcher's own, is torch's."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and not name.endswith(("_inductor/pattern_matcher.py", "/functools.py")):
            return is_torchs_own(name)
        frame = frame.f_back
    return True
