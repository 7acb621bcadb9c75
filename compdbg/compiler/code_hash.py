"""A hash of what a function or class does: its code, and all of the program's own that it uses.

Followed are functions, classes and modules by the names that code mentions, and the plain values
that globals, closures and defaults have now. torch, Python and other installed packages are not
followed: their versions stand in a cache key by themselves. What code assigns to, or keeps in a
list, dict or set, is taken for its state, unless that stands in a global named in capitals; but the
statements are compared that the file makes it with.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import os
import sysconfig
import types
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch

from compdbg.compiler.canonical import canonical, is_plain
from compdbg.compiler.module_text import deciding_statements, global_names

CODE = (type, types.FunctionType, types.MethodType)
_OURS = str(Path(__file__).parents[1]) + os.sep
_INSTALLED = tuple(
    path + os.sep
    for path in (
        str(Path(torch.__file__).parent.parent),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)
_CONTAINERS = (list, dict, set)


def code_hash(*things: Any) -> str:
    """Equal in every process where the code, and what it uses, is the same."""
    return _Walk(things).finish()


def settings(instance: Any) -> dict[str, Any]:
    """The values that an instance was made with.

    What its methods assign to is its state, and so is what is named with an underscore.
    """
    return {
        key: canonical(value, code_hash)
        for key, value in sorted(vars(instance).items())
        if not key.startswith("_") and key not in _assigned_by_methods(type(instance))
    }


class _Walk:
    """Adds each thing that is reached to one digest, once, nearest first."""

    def __init__(self, roots: Collection[Any]) -> None:
        self._digest = hashlib.sha256()
        self._pending: list[Any] = []
        self._seen: set[int] = set()
        self._packages = {str(getattr(root, "__module__", "")).partition(".")[0] for root in roots}
        for root in roots:
            self._reach(root)

    def finish(self) -> str:
        while self._pending:
            self._enter(self._pending.pop(0))
        return self._digest.hexdigest()[:32]

    def _add(self, text: str) -> None:
        self._digest.update(text.encode("utf-8", "surrogateescape") + b"\0")

    def _reach(self, thing: Any) -> None:
        thing = inspect.unwrap(getattr(thing, "__func__", thing))
        if id(thing) not in self._seen:
            self._seen.add(id(thing))
            self._pending.append(thing)

    def _enter(self, thing: Any) -> None:
        self._add(f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing)}")
        file = file_of(thing)
        if file is not None and not file.startswith(_OURS):
            self._add(_said_of(thing, file))
        if isinstance(thing, types.FunctionType):
            self._function(thing)
        elif isinstance(thing, type):
            for base in thing.__bases__:
                self._value(base)
            for function in functions_of(thing):
                self._reach(function)

    def _function(self, function: types.FunctionType) -> None:
        code = function.__code__
        self._add(code_text(code))
        for given in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._value(given)
        for name, value in _closure(function).items():
            if name not in _assigned(code):
                self._value(value)
        names = global_names(code)
        for name in sorted(names & function.__globals__.keys() - _assigned(code)):
            self._value(function.__globals__[name], names, constant=name.isupper())

    def _value(self, value: Any, names: Collection[str] = (), *, constant: bool = False) -> None:
        """Something that code refers to; of a module, what is named along with it."""
        if isinstance(value, types.ModuleType):
            if self._is_own(value):
                self._reach(value)
                for name in sorted(set(names) & vars(value).keys()):
                    self._value(vars(value)[name], constant=name.isupper())
        elif isinstance(value, CODE):
            if self._is_own(value):
                self._reach(value)
        elif is_plain(value) and (constant or not isinstance(value, _CONTAINERS)):
            self._add(canonical(value, self._code_in_data))

    def _code_in_data(self, thing: Any) -> str:
        self._value(thing)
        return str(getattr(thing, "__qualname__", thing))

    def _is_own(self, thing: Any) -> bool:
        """Of the program, or of the package that a root stands in."""
        file = file_of(thing)
        if file is None or file.startswith(_OURS):
            return False
        name = getattr(thing, "__module__", None) or getattr(thing, "__name__", "")
        return not file.startswith(_INSTALLED) or str(name).partition(".")[0] in self._packages


def code_text(code: types.CodeType) -> str:
    """What a code object does, without the place that it stands in."""
    constants = [code_text(c) if inspect.iscode(c) else canonical(c) for c in code.co_consts]
    return "|".join([code.co_code.hex(), " ".join(code.co_names), *constants])


def file_of(thing: Any) -> str | None:
    """The file that a function, class or module stands in."""
    if isinstance(thing, types.FunctionType):
        return thing.__code__.co_filename
    try:
        return inspect.getsourcefile(thing)
    except (TypeError, OSError):
        return None


def _said_of(thing: Any, file: str) -> str:
    """What its file says of a class, and of what code uses; all of it of a module."""
    if isinstance(thing, types.ModuleType):
        return _content_hash(file)
    if isinstance(thing, types.FunctionType):
        return deciding_statements(file, global_names(thing.__code__))
    return deciding_statements(file, {str(getattr(thing, "__qualname__", "")).partition(".")[0]})


def _content_hash(file: str) -> str:
    """Nothing for a file that can't be read, or is none (`<stdin>`): its code is known all the same."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


@functools.cache
def _assigned(code: types.CodeType) -> frozenset[str]:
    """The globals, closure variables and attributes that code assigns to."""
    stores = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
    own = {str(step.argval) for step in dis.get_instructions(code) if step.opname in stores}
    inner = (_assigned(constant) for constant in code.co_consts if inspect.iscode(constant))
    return frozenset(own.union(*inner))


def _assigned_by_methods(cls: type) -> frozenset[str]:
    methods = (f for base in cls.__mro__ for f in functions_of(base) if f.__name__ not in _CONSTRUCTORS)
    return frozenset().union(*(_assigned(method.__code__) for method in methods))


_CONSTRUCTORS = ("__init__", "__post_init__", "__new__", "__setstate__")


def functions_of(cls: type, without: Collection[str] = ()) -> Iterator[types.FunctionType]:
    """What a class itself defines in Python: methods, also static ones, and the getters of properties."""
    for name, value in vars(cls).items():
        inner = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        if isinstance(inner, types.FunctionType) and name not in without:
            yield inner


def _closure(function: types.FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
