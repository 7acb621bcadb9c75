"""The code that Dynamo put in a frame's place, as it was recorded, put together again as a code object.

Nothing of it is ever run. It can be put together by the Python that recorded it only; of another the
disassembly is there, which was recorded too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
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


class Answer(Struct, frozen=True):
    """What came of one, in the process that decompiles."""

    text: str
    why: str = ""


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
    """One, which is kept."""
    return decompiled_all([text], TIME_S)[0]


def decompiled_all(texts: Sequence[str], seconds: float) -> list[Decompiled]:
    """By depyf, in a process of its own that may fail, or hang, or take all memory, for itself alone."""
    read = [_read(text) for text in texts]
    asked = [one for one in read if isinstance(one, Recorded)]
    answers = iter(_answers(asked, seconds))
    return [one if isinstance(one, Decompiled) else _told(one, next(answers)) for one in read]


def _read(text: str) -> Recorded | Decompiled:
    if not text.startswith("{"):
        return Decompiled(text)  # a report holds what was made of it
    try:
        recorded = msgspec.json.decode(text, type=Recorded)
    except msgspec.DecodeError:
        return Decompiled("", "what was recorded of it is damaged")
    here = "{}.{}".format(*sys.version_info)
    if recorded.python == here:
        return recorded
    why = f"it was recorded by Python {recorded.python}, and only that can decompile it; this is {here}"
    return Decompiled(recorded.dis, why)


def _told(recorded: Recorded, answer: Answer) -> Decompiled:
    if answer.why:
        return Decompiled(recorded.dis, f"could not be decompiled: {answer.why}")
    return Decompiled(answer.text)


def _answers(asked: Sequence[Recorded], seconds: float) -> list[Answer]:
    """As many as were asked for; of those that it did not come to, why."""
    if not asked:
        return []
    command = [sys.executable, "-I", "-m", "compdbg.views.decompile"]
    try:
        done = subprocess.run(
            command, input=msgspec.json.encode(asked), capture_output=True, timeout=seconds, check=False
        )
        said, why = done.stdout, f"depyf was ended by signal {-done.returncode}"
        if done.returncode > 0:
            why = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["depyf failed"])[-1]
    except subprocess.TimeoutExpired as late:
        said, why = late.stdout or b"", f"depyf took more than {seconds:g} s"
    except OSError as problem:
        said, why = b"", str(problem.strerror)
    lines = said[:_MOST].split(b"\n")[:-1]
    answers = [msgspec.json.decode(line, type=Answer) for line in lines[: len(asked)]]
    return answers + [Answer("", why)] * (len(asked) - len(answers))


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
