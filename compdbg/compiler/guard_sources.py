"""Sources of guards, such as `L['self'].layers[0].eps`: parsed and walked, never evaluated.

A source can take attributes and items, ask for a type, and call a few things that only look.
"""

from __future__ import annotations

import ast
import functools
import importlib
import operator
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

_LOOKS = frozenset(("size", "stride", "storage_offset", "keys", "values", "items"))
_OF_ONE = frozenset(("type", "list", "dict", "___from_numpy"))
_TAKES = {
    "getattr": "attribute",
    "object.__getattribute__": "attribute",
    "dict.__getitem__": "item",
    "list.__getitem__": "item",
    "tuple.__getitem__": "item",
}
"""Functions of an owner and a key, and what step they are."""
_IMPORT = "__import_"

Steps = tuple[Any, ...]


class CannotFollow(Exception):
    """A source that this evaluator does not walk."""


class Missing(Exception):
    """A source that leads nowhere in these values."""


class Walk:
    """Follows sources from a call's arguments and a function's globals; each step once."""

    def __init__(self, arguments: Mapping[str, Any], globals_: Mapping[str, Any]) -> None:
        self._roots: dict[str, Any] = {"L": arguments, "G": _Globals(globals_)}
        self._known: dict[Steps, Any] = {}

    def value(self, source: str) -> Any:
        """Raises Missing."""
        return self._follow(parsed(source))

    def _follow(self, steps: Steps) -> Any:
        if len(steps) == 1:
            root = self._roots.get(steps[0])
            return _module(steps[0]) if root is None else root
        if steps in self._known:
            return self._known[steps]
        owner = self._follow(steps[:-1])
        kind, key = steps[-1]
        if kind == "item at":
            kind, key = "item", self._follow(key)
        try:
            value = _STEPS[kind](owner, key)
        except (AttributeError, KeyError, IndexError, TypeError):
            raise Missing("nothing there") from None
        self._known[steps] = value
        return value


def _reference(owner: Any, _: None) -> Any:
    if not isinstance(owner, weakref.ref):
        raise TypeError(owner)
    return owner()


_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "attribute": getattr,
    "item": operator.getitem,
    "look": lambda owner, name: getattr(owner, name)(),
    "type": lambda owner, _: type(owner),
    "list": lambda owner, _: list(owner),
    "dict": lambda owner, _: dict(owner),
    "reference": _reference,
    "___from_numpy": lambda owner, _: torch.as_tensor(owner),
}


class _Globals:
    """A function's globals, with the names under which Dynamo puts modules and builtins there."""

    def __init__(self, globals_: Mapping[str, Any]) -> None:
        self._globals = globals_

    def __getitem__(self, name: str) -> Any:
        if name.startswith("__builtins_dict__"):
            import builtins

            return vars(builtins)
        if name.startswith(_IMPORT):
            return _module(name.removeprefix(_IMPORT).replace("_dot_", "."))
        return self._globals[name]


def _module(name: str) -> Any:
    """A module that the program has imported; of torch's any."""
    try:
        return importlib.import_module(name) if f"{name}.".startswith("torch.") else sys.modules[name]
    except (ImportError, KeyError):
        raise Missing(f"no module {name}") from None


@functools.lru_cache(maxsize=1 << 16)
def parsed(source: str) -> Steps:
    """A source as steps from `L` or `G`. Raises CannotFollow."""
    try:
        return _steps(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        raise CannotFollow(source) from None


def _steps(node: ast.expr) -> Steps:
    match node:
        case ast.Name(id="L" | "G" as root):
            return (root,)
        case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str() as module)]):
            return (module,)
        case ast.Attribute(value=owner, attr=name):
            return (*_steps(owner), ("attribute", name))
        case ast.Subscript(value=owner, slice=key):
            return (*_steps(owner), _item(key))
        case ast.Call(keywords=[]):
            return _call(node)
    raise CannotFollow(ast.dump(node))


def _call(node: ast.Call) -> Steps:
    """The few calls that occur in sources, none of which runs code of the program."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _OF_ONE:
            return (*_steps(inner), (name, None))
        case ast.Call(func=ast.Subscript() as reference, args=[]):
            return (*_steps(reference), ("reference", None))
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[]) if name in _LOOKS:
            return (*_steps(owner), ("look", name))
        case ast.Call(func=ast.Attribute() as function, args=[owner]) if ast.unparse(function) == "dict.keys":
            return (*_steps(owner), ("look", "keys"))
        case ast.Call(func=function, args=[owner, key]) if kind := _TAKES.get(ast.unparse(function)):
            return (*_steps(owner), (kind, _constant(key)))
    raise CannotFollow(ast.dump(node))


def _item(key: ast.expr) -> tuple[str, Any]:
    """A constant key, a dtype as in `LIMITS[torch.int8]`, or one that is a source itself."""
    match key:
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return "item", _dtype(name)
    if isinstance(key, (ast.Call, ast.Subscript, ast.Attribute)):
        return "item at", _steps(key)
    return "item", _constant(key)


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise CannotFollow(f"torch.{name}")
    return found


def _constant(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        parts = (None if part is None else _constant(part) for part in (node.lower, node.upper, node.step))
        return slice(*parts)
    try:
        value = ast.literal_eval(node)
        hash(value)
    except (ValueError, TypeError):
        raise CannotFollow(ast.dump(node)) from None
    return value
