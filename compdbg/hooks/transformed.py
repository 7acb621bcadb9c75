"""The code that Dynamo put in a frame's place, as plain data: what a reader can put together again.

Nothing that is written here can run by being read: names, numbers, and bytes in hexadecimal.
"""

from __future__ import annotations

import dis
import io
import json
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from compdbg import probe
from compdbg.events import FrameCode
from compdbg.events.code_parts import BYTES, NAMES, NUMBERS, TEXTS
from compdbg.hooks.compiling import Compiling
from compdbg.record import options

_SHOWN_TYPES = ("dtype", "device", "layout", "memory_format")
"""Types of torch whose values have a name that is also how they are written."""
_LARGEST = 2**53
"""Integers up to here are numbers in any JSON."""


def record_code(record: Compiling, code: CodeType) -> None:
    """Record the code of a compiled frame, unless source is to be left out."""
    if not options.current().source:
        return
    listing = io.StringIO()
    dis.dis(code, file=listing)
    text = {"python": "{}.{}".format(*sys.version_info), "code": as_data(code), "dis": listing.getvalue()}
    digest = probe.payload(json.dumps(text))
    probe.emit(FrameCode(frame=record.frame, compile_id=record.compile_id, text=digest, name=code.co_name))


def as_data(code: CodeType) -> dict[str, Any]:
    """A code object by its parts; those that this Python's have not are left out."""
    parts: dict[str, Any] = {}
    for name in (*NUMBERS, *TEXTS, *NAMES, *BYTES):
        value = getattr(code, f"co_{name}", None)
        if value is not None:
            parts[name] = value.hex() if isinstance(value, bytes) else value
    parts["consts"] = [constant(value) for value in code.co_consts]
    return parts


def constant(value: Any) -> Any:
    """Plain values as they are or by their type; of any other only what it is."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind in _PLAIN:
        return _PLAIN[kind](value)
    is_named = kind.__module__ == "torch" and kind.__name__ in _SHOWN_TYPES
    return {"other": str(value) if is_named else f"<{kind.__module__}.{kind.__qualname__}>"}


_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: lambda n: n if abs(n) < _LARGEST else {"int": str(n)},
    float: lambda x: {"float": x.hex()},
    complex: lambda z: {"complex": [z.real.hex(), z.imag.hex()]},
    bytes: lambda b: {"bytes": b.hex()},
    type(...): lambda _: {"ellipsis": True},
    tuple: lambda items: {"tuple": [constant(item) for item in items]},
    frozenset: lambda items: {"frozenset": [constant(item) for item in items]},
    CodeType: lambda code: {"code": as_data(code)},
}
