"""From the guards that torch built to conditions that can be kept; what can't be is told by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from compdbg.compiler.guard_data import Condition, GuardRecord, name_of
from compdbg.compiler.guard_values import has_name, is_plain, qualified, shown, tensor_properties
from compdbg.events import Where

_STATE = frozenset(
    ("AUTOGRAD_SAVED_TENSORS_HOOKS", "GRAD_MODE", "DETERMINISTIC_ALGORITHMS", "GLOBAL_STATE",
     "TORCH_FUNCTION_STATE", "DEFAULT_DEVICE", "SHAPE_ENV", "INFERENCE_MODE")
)  # fmt: skip
"""Guards on torch's global state are factors of the key; those on shapes come from the trace."""


_BY_ADDRESS = re.compile(r"G\['\w*_\d{6,}_c[^']*'\]")
"""Globals that Dynamo makes for objects it has no other way to: they are not there in another process."""
_EQUAL = frozenset(
    ("CONSTANT_MATCH", "EQUALS_MATCH", "BOOL_MATCH", "NONE_MATCH", "CONSTANT_SUBCLASS_MATCH", "ID_MATCH",
     "BUILTIN_MATCH", "CLOSURE_MATCH", "FUNCTION_MATCH", "CLASS_MATCH", "MODULE_MATCH")
)  # fmt: skip
_LENGTH = frozenset(("SEQUENCE_LENGTH", "DICT_LENGTH", "LIST_LENGTH", "EMPTY_NN_MODULE_HOOKS_DICT"))
_KEYS = frozenset(("DICT_KEYS_MATCH", "DICT_KEYS", "DICT_CONST_KEYS", "MAPPING_KEYS_CHECK"))
_ITEM = frozenset(("DICT_CONTAINS", "DICT_NOT_CONTAINS", "SET_CONTAINS", "SET_NOT_CONTAINS"))


def record_guards(entries: Iterable[Any], shapes: Iterable[Condition]) -> GuardRecord:
    """From the entries that torch gives a guard filter, and the trace's guards on shapes."""
    found: dict[tuple[Any, ...], Condition] = {}
    left_out: Counter[str] = Counter()
    unknown: list[str] = []
    for entry in entries:
        kind, source = entry.guard_type, name_of(entry.orig_guard)
        if kind in _STATE or (kind == "TENSOR_MATCH" and _is_parameter(source)):
            continue
        if kind == "DUPLICATE_INPUT" and (is_plain(entry.value) or has_name(entry.value)):
            continue  # the same value at both, of which there are guards of their own
        where = _where(getattr(entry.orig_guard, "user_stack", None))
        if kind == "HASATTR" and not _given(entry.orig_guard):
            source, asked = _about_the_holder(entry.orig_guard, entry.has_value)
        else:
            asked = list(_asked(kind, entry.orig_guard, entry.value)) if entry.has_value else []
        if _BY_ADDRESS.search(source) or any(_BY_ADDRESS.search(str(value)) for _, value in asked):
            asked = []
        if not asked:
            left_out[kind] += 1
            unknown.append(f"{kind} on {source or 'nothing'}")
        for operator, value in asked:
            condition = Condition(source=source, operator=operator, value=value, guard=kind, where=where)
            found[source, operator, str(value)] = condition
    return GuardRecord([*found.values(), *shapes], dict(left_out), unknown)


def _asked(kind: str, guard: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """A guard as operators with what they want; nothing where it can't be told without the object."""
    given = _given(guard)
    if kind in _EQUAL:
        yield from _equal(value)
    elif kind in _LENGTH:
        yield "length", len(value)
        if not isinstance(value, dict):
            yield "type", qualified(type(value))
    elif kind in _KEYS and all(is_plain(key) or has_name(key) for key in value):
        yield "keys", [shown(key) for key in value]
    elif kind in _ITEM and (is_plain(given["key"]) or has_name(given["key"])):
        without = "_NOT_" in kind or given.get("invert", False)
        yield "without" if without else "contains", shown(given["key"])
    elif kind in ("NOT_NONE_MATCH", "WEAKREF_ALIVE"):
        yield "present", None
    elif kind == "TYPE_MATCH":
        yield "type", qualified(type(value))
    elif kind == "TENSOR_MATCH":
        yield "tensor", tensor_properties(value)
    elif kind == "HASATTR":
        yield "has" if hasattr(value, given["attr"]) else "lacks", given["attr"]
    elif kind == "NOT_PRESENT_IN_GENERIC_DICT":
        yield "not own", given["attr"]
    elif kind == "DUPLICATE_INPUT":
        yield "same", name_of(given["source_b"])


def _given(guard: Any) -> dict[str, Any]:
    """What a guard was made with besides its source."""
    return getattr(guard.create_fn, "keywords", {})


def _about_the_holder(guard: Any, there: bool) -> tuple[str, list[tuple[str, Any]]]:
    """Up to torch 2.12 the source of a guard on an attribute is the attribute, not what has it."""
    source = guard.originating_source
    if not hasattr(source, "member"):
        source = getattr(source, "base", source)  # a module's source wraps the attribute's
    if not hasattr(source, "member"):
        return name_of(guard), []
    return name_of(source.base), [("has" if there else "lacks", source.member)]


def _equal(value: Any) -> Iterator[tuple[str, Any]]:
    if has_name(value):
        yield "is", qualified(value)
    elif is_plain(value):
        yield "equals", shown(value)


def _is_parameter(source: str) -> bool:
    """Parameters and buffers are compared as a whole, by the cache's key."""
    return "._parameters[" in source or "._buffers[" in source


def _where(stack: Any) -> Where | None:
    """The innermost line of a user's stack."""
    frames = list(stack) if stack else []
    if not frames:
        return None
    last = frames[-1]
    return Where(last.filename, last.lineno or 0, last.name)
