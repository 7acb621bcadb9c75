"""A digest of what a function or a pass is made of: its code, and the user's code that it refers to.

Equal over processes. Comments, line numbers, docstrings and what an object counts do not matter.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

from compdbg.hooks.userline import is_stdlib_file, is_torch_file

_DEPTH = 8


def digest_of(subject: Any) -> str:
    """The digest of a function, class, or of an object by its class and by the functions it holds."""
    seen: set[int] = set()
    state = hashlib.blake2b(digest_size=8)
    for part in _parts(subject, seen, 0):
        state.update(part.encode())
        state.update(b"\0")
    return state.hexdigest()


def _parts(subject: Any, seen: set[int], depth: int) -> Iterator[str]:
    if depth > _DEPTH or id(subject) in seen:
        return
    seen.add(id(subject))
    if isinstance(subject, functools.partial):
        yield from _parts(subject.func, seen, depth)
    elif isinstance(subject, types.MethodType):
        yield from _parts(subject.__func__, seen, depth)
        yield from _parts(subject.__self__, seen, depth + 1)
    elif isinstance(subject, types.FunctionType):
        yield from _function(subject, seen, depth)
    elif isinstance(subject, type):
        yield from _class(subject, seen, depth)
    elif _is_library(type(subject)):
        yield from _held(subject, seen, depth)
    else:
        yield from _class(type(subject), seen, depth)
        yield from _held(subject, seen, depth)


def _function(function: types.FunctionType, seen: set[int], depth: int) -> Iterator[str]:
    code = function.__code__
    if is_torch_file(code.co_filename) or is_stdlib_file(code.co_filename):
        inner = getattr(function, "__wrapped__", None)
        held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        for value in [inner, *held]:
            if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
                yield from _parts(value, seen, depth + 1)
        return
    yield from _code(code, function.__doc__)
    yield repr(tuple(v for v in function.__defaults__ or () if _is_plain(v)))
    for name in sorted({n for c in _codes(code) for n in c.co_names}):
        value = function.__globals__.get(name)
        if _is_plain(value) and name.isupper():
            yield f"{name}={value!r}"
        elif isinstance(value, (types.FunctionType, type)) and not _is_library(value):
            yield from _parts(value, seen, depth + 1)
    for cell in function.__closure__ or ():
        if _is_filled(cell) and isinstance(cell.cell_contents, (types.FunctionType, types.MethodType)):
            yield from _parts(cell.cell_contents, seen, depth + 1)


def _class(cls: type, seen: set[int], depth: int) -> Iterator[str]:
    for base in cls.__mro__:
        if _is_library(base):
            continue
        for name, value in sorted(vars(base).items()):
            inner = (
                value.fget
                if isinstance(value, property)
                else inspect.unwrap(getattr(value, "__func__", value))
            )
            if isinstance(inner, types.FunctionType):
                yield name
                yield from _parts(inner, seen, depth + 1)
            elif _is_plain(value) and not name.startswith("__"):
                yield f"{name}={value!r}"


def _held(subject: Any, seen: set[int], depth: int) -> Iterator[str]:
    """Functions and pattern passes that an object holds; not its numbers, which may be counters."""
    values = list(getattr(subject, "__dict__", {}).values())
    matcher = sys.modules.get("torch._inductor.pattern_matcher")
    kind = getattr(matcher, "PatternMatcherPass", None)
    for value in [subject, *values]:
        if kind is not None and isinstance(value, kind):
            for entry in (e for entries in list(value.patterns.values()) for e in list(entries)):
                for function in _functions_of(entry):
                    yield from _parts(function, seen, depth + 1)
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            yield from _parts(value, seen, depth + 1)


def _functions_of(entry: Any) -> Iterator[Any]:
    """What a pattern's entry was registered with."""
    from compdbg.hooks.pattern_matcher_entries import cells, check_of, function_of, torch_check, unwrapped

    check = torch_check(entry)
    replacement = unwrapped(cells(check).get("replace_fn")) if check is not None else None
    yield from filter(None, (function_of(entry), check_of(entry), replacement))


def _code(code: types.CodeType, doc: str | None) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant, None)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        elif constant is not None and constant != doc:  # None stands where a docstring would
            yield repr(constant)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str)) or type(value).__name__ == "dtype"


def _is_library(value: Any) -> bool:
    """Code that comes with Python or torch: its version is in every key."""
    module = sys.modules.get(getattr(value, "__module__", "") or "")
    file = getattr(module, "__file__", None)
    if file is None:
        return getattr(value, "__module__", "") != "__main__"
    return is_torch_file(file) or is_stdlib_file(file)
