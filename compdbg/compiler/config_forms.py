"""The form that a value of a configuration has to have: in words, and as what was probably meant."""

from __future__ import annotations

import enum
import json
import re
import shlex
import typing
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any

import msgspec

_NO = {"0", "no", "off", "f", "n", "false", "none", ""}
_NAMES = {bool: "true or false", int: "a whole number", str: "a text", dict: "a mapping", float: "a number"}
_ITEMS = {int: "numbers", str: "names", tuple: "pairs of numbers"}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_EXAMPLES: dict[Any, list[Any]] = {
    int: [1, 2, 4],
    str: ["namespace::name"],
    tuple: [(1, 16)],
    Any: ["module:object"],
}


def options_of(declared: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    return typing.get_args(declared) if isinstance(declared, UnionType) else (declared,)


def form_of(declared: Any) -> str:
    """`a list of numbers`, `true or false`."""
    form = _first(declared)
    if typing.get_origin(form) is list:
        item, words = _item(form)
        several = [_ITEMS[item], *map(repr, words)] if item in _ITEMS else []
        return f"a list of {' or '.join(several)}" if several else "a list"
    kind = typing.get_origin(form) or form
    return _NAMES.get(kind, "a mapping of its keys")


def said(value: Any) -> str:
    """`the number 8`, `the text 'yes'`: what was given in its place."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    kinds = {int: "number", float: "number", str: "text", list: "list", tuple: "tuple", dict: "mapping"}
    kind = kinds.get(type(value))
    return f"the {kind} {value!r}" if kind else f"{type(value).__name__} {value!r}"[:80]


def meant(declared: Any, given: Any) -> Any:
    """What a value of another form was probably to be; where it does not tell, an example."""
    form = _first(declared)
    kind = typing.get_origin(form) or form
    text = str(given).strip()
    if kind is bool:
        return text.lower() not in _NO
    if kind is int:
        number = _NUMBER.search(text)
        return int(float(number[0])) if number and not isinstance(given, bool) else 1
    if kind is str:
        return "NAME" if given is None else text
    if kind is list:
        item, words = _item(form)
        return _items(item, words, given) or _EXAMPLES[item]
    if kind is dict:
        return {"max_autotune": True}
    return _of_structure(form, given)


def as_python(key: str, value: Any) -> str:
    """`sizes=[8]`, as an argument."""
    return f"{key}={value!r}"


def as_option(option: str, value: Any) -> str:
    """`-cc.sizes='[8]'`, for a shell; one option for each key of a mapping."""
    if isinstance(value, Mapping):
        return " ".join(as_option(f"{option}.{key}", each) for key, each in value.items())
    plain = value.name if isinstance(value, enum.Enum) else value
    return f"{option}={shlex.quote(plain if isinstance(plain, str) else json.dumps(plain))}"


def _first(declared: Any) -> Any:
    return next(option for option in options_of(declared) if option is not NoneType)


def _item(form: Any) -> tuple[Any, tuple[str, ...]]:
    """What a list holds, and the words that may stand among that."""
    kinds = typing.get_args(form)[0]
    item, *others = typing.get_args(kinds) if typing.get_origin(kinds) is typing.Union else (kinds,)
    return typing.get_origin(item) or item, tuple(word for each in others for word in typing.get_args(each))


def _items(item: Any, words: tuple[str, ...], given: Any) -> list[Any]:
    """The items that a text, or one item alone, was to be a list of."""
    if isinstance(given, (bool, NoneType)):
        return []
    among = [word for word in words if word in str(given)]
    if item in (int, tuple):
        numbers = [int(float(number)) for number in _NUMBER.findall(str(given))]
        return [*numbers, *among] if item is int else list(zip(numbers[::2], numbers[1::2], strict=False))
    names = re.findall(r"[\w.:/-]+", given) if isinstance(given, str) else _flat(given)
    return names if item is Any else [str(name) for name in names]


def _flat(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple, set, frozenset)) else [given]


def _of_structure(form: Any, given: Any) -> dict[str, Any]:
    """The key of a structure that a value alone was to be the value of, else its first."""
    types = typing.get_type_hints(form)
    fields = form.__struct_fields__
    if isinstance(given, str) and given in fields:
        return {given: True}
    for name in fields:
        declared = _first(types[name])
        if isinstance(declared, type) and issubclass(declared, enum.Enum):
            found = next((m for m in declared if str(given).lower() in (m.name.lower(), m.value)), None)
            if found is not None:
                return {name: found.value}
        elif isinstance(given, bool) and declared is bool:
            return {name: given}
    default = msgspec.structs.asdict(form())[fields[0]]
    value = default.value if isinstance(default, enum.Enum) else default
    return {fields[0]: True if value is None else value}
