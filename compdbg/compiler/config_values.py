"""What configuration structures have in common: strict keys, checked values, text from a command line.

A wrong key or value is an error at the line that writes it, with the nearest valid name.
"""

from __future__ import annotations

import enum
import functools
import json
import typing
from collections.abc import Mapping
from types import NoneType
from typing import Any

import msgspec

from compdbg.compiler.config_forms import as_option, as_python, form_of, meant, options_of, said
from compdbg.compiler.near_names import nearest


class ConfigError(ValueError):
    """A configuration that can't be meant: an unknown key, a value of the wrong kind, a conflict."""


class WrongValue(ConfigError):
    """A value that its key can't have; made by `wrong_value`."""

    key: str = ""
    """Whose, without the structure that it is in."""
    what: str = ""
    """What is wrong with it, without saying of what."""
    meant: tuple[Any, ...] = ()
    """The value that was probably meant, where there is one to suggest."""

    def as_option(self, option: str) -> str:
        """What to type for it on a command line, as half a sentence; empty if that is not known."""
        whole = option if option.endswith(self.key) else f"{option}.{self.key}"
        return f"; write {as_option(whole, self.meant[0])}" if self.meant else ""


def wrong_value(place: str, what: str, *meant: Any) -> WrongValue:
    """The error for the value of `place`, which is `Structure.key`."""
    key = place.rpartition(".")[2]
    error = WrongValue(f"{place}: {what}" + (f"; write {as_python(key, meant[0])}" if meant else ""))
    error.key, error.what, error.meant = key, what, meant
    return error


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
    options = options_of(declared)
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
    except msgspec.ValidationError:
        wrong = f"{form_of(declared)} is wanted, not {said(value)}"
        raise wrong_value(what, wrong, meant(declared, value)) from None


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
    raise wrong_value(what, f"no {declared.__name__} {value!r}{hint}")


def from_text(text: str, declared: Any = Any) -> Any:
    """A value as written on a command line: JSON where it is JSON and no text is wanted, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        value = {"True": True, "False": False, "None": None}.get(text, text)
    return text if str in options_of(declared) and not isinstance(value, (str, NoneType)) else value


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
