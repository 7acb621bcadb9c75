"""The code that Dynamo put in a frame's place, as it was recorded, put together again as a code object.

Nothing of it is ever run. It can be put together by the Python that recorded it only; of another the
disassembly is there, which was recorded too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

import msgspec
from msgspec import Struct

from compdbg.events.code_parts import BYTES, NAMES, NUMBERS, TEXTS

TIME_S = 10.0
"""How long decompiling one frame may take."""
_MOST = 8_000_000
"""Characters of what is read of it."""


class NoCode(Exception):
    """What was recorded can't be put together here; the message says why."""


class Recorded(Struct, frozen=True):
    """What is stored of a frame's code."""

    python: str
    code: dict[str, Any]
    dis: str


class Decompiled(Struct, frozen=True):
    """The code as Python; or, where `why` says why not, as the instructions that it is."""

    text: str
    why: str = ""


class _Other:
    """Stands for a constant that was not recorded."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return self._shown


@lru_cache(maxsize=64)
def decompiled(text: str) -> Decompiled:
    """By depyf, in a process of its own that may fail, or hang, or take all memory, for itself alone."""
    try:
        recorded = msgspec.json.decode(text, type=Recorded)
    except msgspec.DecodeError:
        return Decompiled("", "what was recorded of it is damaged")
    here = "{}.{}".format(*sys.version_info)
    if recorded.python != here:
        why = f"it was recorded by Python {recorded.python}, and only that can decompile it; this is {here}"
        return Decompiled(recorded.dis, why)
    command = [sys.executable, "-I", "-m", "compdbg.views.decompile"]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=TIME_S, check=False)
    except subprocess.TimeoutExpired:
        return Decompiled(recorded.dis, f"could not be decompiled: depyf took more than {TIME_S:.0f} s")
    except OSError as problem:
        return Decompiled(recorded.dis, f"could not be decompiled: {problem.strerror}")
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = said[-1] if said and done.returncode > 0 else f"depyf was ended by signal {-done.returncode}"
        return Decompiled(recorded.dis, f"could not be decompiled: {reason}")
    return Decompiled(done.stdout[:_MOST].decode("utf-8", "replace"))


def code_of(parts: dict[str, Any]) -> CodeType:
    """The code object that was recorded by its parts.

    Raises:
        NoCode: the parts are of no code object of this Python.
    """
    try:
        given: dict[str, Any] = {name: parts[name] for name in (*NUMBERS, *TEXTS) if name in parts}
        given |= {name: tuple(parts[name]) for name in NAMES}
        given |= {name: bytes.fromhex(parts[name]) for name in BYTES if name in parts}
        given["consts"] = tuple(map(_constant, parts["consts"]))
        return code_of.__code__.replace(**{f"co_{name}": value for name, value in given.items()})
    except (KeyError, TypeError, ValueError, OverflowError, SystemError) as problem:
        raise NoCode(f"{type(problem).__name__}: {problem}") from problem


def _constant(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, given),) = value.items()
    return _MADE[kind](given)


_MADE: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float.fromhex,
    "complex": lambda pair: complex(*map(float.fromhex, pair)),
    "bytes": bytes.fromhex,
    "ellipsis": lambda _: ...,
    "tuple": lambda items: tuple(map(_constant, items)),
    "frozenset": lambda items: frozenset(map(_constant, items)),
    "code": code_of,
    "other": lambda text: _Other(str(text)),
}
