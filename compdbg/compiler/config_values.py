"""What configuration structures have in common: strict keys, checked values, text from a command line.

A wrong key or value is an error at the line that writes it, with the nearest valid name.
"""

from __future__ import annotations

import difflib
import enum
import functools
import json
import typing
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any

import msgspec


class ConfigError(ValueError):
    """A configuration that can't be meant: an unknown key, a value of the wrong kind, a conflict."""


def nearest(name: str, known: Iterable[str], *, few: bool = True) -> str:
    """`; did you mean 'x'?`, or when none is near the names that there are, if these are few."""
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1, cutoff=0.6)
    if close:
        return f"; did you mean {next(n for n in names if n.lower() == close[0])!r}?"
    return f"; there are: {', '.join(names)}" if names and few else ""


class StrictMeta(msgspec.StructMeta):
    """Constructing with an unknown key is a ConfigError that names the nearest valid one."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        known = cls.__struct_fields__
        for key in values:
            if key not in known:
                raise ConfigError(f"{cls.__name__} has no {key!r}{nearest(key, known)}")
        return super().__call__(*args, **values)


class Strict(msgspec.Struct, metaclass=StrictMeta, frozen=True, kw_only=True):
    """A frozen structure whose values are converted to their declared types, or refused."""

    def __post_init__(self) -> None:
        for name, declared in _types(type(self)).items():
            given = getattr(self, name)
            value = converted(given, declared, f"{type(self).__name__}.{name}")
            if value is not given:
                msgspec.structs.force_setattr(self, name, value)


@functools.cache
def _types(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {name: hints[name] for name in cls.__struct_fields__}  # type: ignore[attr-defined]


def field_type(cls: type, name: str) -> Any:
    """The declared type of one field; raises ConfigError with the nearest name."""
    types = _types(cls)
    if name not in types:
        raise ConfigError(f"{cls.__name__} has no {name!r}{nearest(name, types)}")
    return types[name]


def converted(value: Any, declared: Any, what: str) -> Any:
    """`value` as its declared type: an enum by name, a structure from a mapping, a list from a sequence."""
    if declared is Any:
        return value
    options = typing.get_args(declared) if isinstance(declared, UnionType) else (declared,)
    if value is None and NoneType in options:
        return None
    for option in options:
        if isinstance(option, type) and issubclass(option, enum.Enum):
            return _enum(value, option, what)
        if isinstance(option, type) and issubclass(option, Strict) and isinstance(value, Mapping):
            return option(**value)
    if isinstance(value, Strict) and type(value) in options:
        return value
    try:
        return msgspec.convert(value, declared)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}; got {value!r}") from None


def _enum(value: Any, declared: type[enum.Enum], what: str) -> enum.Enum:
    if isinstance(value, declared):
        return value
    names = {name.lower(): member for name, member in declared.__members__.items()}
    if isinstance(value, str):
        found = names.get(value.lower().rpartition(".")[2])
        if found is not None:
            return found
    if not isinstance(value, bool) and value in [member.value for member in declared]:
        return declared(value)
    known = declared.__members__
    hint = nearest(value, known) if isinstance(value, str) else nearest("", known)
    raise ConfigError(f"{what}: no {declared.__name__} {value!r}{hint}")


def from_text(text: str) -> Any:
    """A value as written on a command line: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def shown(value: Any) -> str:
    """A configuration value as text, the same in events, files and messages."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (bool, NoneType)):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (str, int, float)):
        return str(value)
    return getattr(type(value), "__qualname__", str(value))
