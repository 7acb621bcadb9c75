"""From a callable in Inductor's configuration to the pattern-matcher passes that it holds or calls.

Reads only what is there already (closures, globals that its code names, attributes); runs nothing.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from compdbg.hooks.pattern_matcher_entries import cells, function_name, unwrapped
from compdbg.hooks.pattern_matcher_owner import is_torch_class

_MAX_DEPTH = 4
_MAX_OBJECTS = 400
_numbers = itertools.count(1)
_keys: dict[tuple[int, str], tuple[Any, str]] = {}


def key_of(custom_pass: Any) -> str:
    """A name for a callable in this process; a bound method is the same each time it is taken."""
    custom_pass = without_partial(custom_pass)
    method = custom_pass.__name__ if isinstance(custom_pass, MethodType) else ""
    thing = custom_pass.__self__ if isinstance(custom_pass, MethodType) else custom_pass
    known = _keys.get((id(thing), method))
    if known is not None and known[0]() is thing:
        return known[1]
    key = f"c{next(_numbers)}"
    try:
        _keys[id(thing), method] = (weakref.ref(thing), key)
    except TypeError:
        return f"c-{type(thing).__name__}-{id(thing)}"
    return key


def without_partial(custom_pass: Any) -> Any:
    """Inductor binds `is_inference` to a pass that wants it."""
    while isinstance(custom_pass, functools.partial):
        custom_pass = custom_pass.func
    return custom_pass


def name_of(custom_pass: Any) -> str:
    """The class of a pass object, or of the object whose method it is; the name of a function."""
    custom_pass = without_partial(custom_pass)
    if isinstance(custom_pass, MethodType):
        return type(custom_pass.__self__).__name__
    function = hasattr(custom_pass, "__code__")
    return function_name(unwrapped(custom_pass)) if function else type(custom_pass).__name__


def linked_passes(custom_pass: Any, kind: type[Any]) -> list[tuple[Any, Any]]:
    """The `PatternMatcherPass`es (`kind`) within reach of a callable, each with the object that has it.

    That object is None unless the pass is an attribute of it, and the only one there.
    """
    found: dict[int, tuple[Any, Any]] = {}
    seen: set[int] = set()
    edge = [custom_pass]
    for _ in range(_MAX_DEPTH):
        following: list[Any] = []
        for thing in edge:
            if id(thing) in seen or len(seen) > _MAX_OBJECTS:
                continue
            seen.add(id(thing))
            near = list(_within_reach(thing))
            held = [each for each in near if isinstance(each, kind)]
            alone = len(held) == 1 and _has_attributes(thing)
            for each in [thing] if isinstance(thing, kind) else held:
                if found.get(id(each), (each, None))[1] is None:
                    found[id(each)] = (each, thing if alone else None)
            following.extend(each for each in near if not isinstance(each, kind))
        edge = following
    return list(found.values())


def _has_attributes(thing: Any) -> bool:
    """An object of a class of its own: not a function, a container or a part of torch."""
    plain = (FunctionType, MethodType, functools.partial, dict, list, tuple, set, type, ModuleType)
    return not isinstance(thing, plain) and not is_torch_class(type(thing))


def _within_reach(thing: Any) -> Iterator[Any]:
    if isinstance(thing, FunctionType):
        yield from cells(thing).values()
        yield from _named_globals(thing)
    elif isinstance(thing, MethodType):
        yield from (thing.__self__, thing.__func__)
    elif isinstance(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, dict):
        yield from list(thing.values())[:_MAX_OBJECTS]
    elif isinstance(thing, (list, tuple, set)):
        yield from list(thing)[:_MAX_OBJECTS]
    elif _has_attributes(thing):
        yield from list(getattr(thing, "__dict__", {}).values())
        yield getattr(type(thing), "__call__", None)  # noqa: B004  its code, not whether it is callable


def _named_globals(function: FunctionType) -> Iterator[Any]:
    names = list(_names(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and not value.__name__.startswith("torch"):
            yield from (vars(value)[n] for n in names if n in vars(value))
        elif value is not None and not isinstance(value, ModuleType):
            yield value


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
