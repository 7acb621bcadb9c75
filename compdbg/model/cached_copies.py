"""Kept copies in a graph that came from a cache, of whose making nothing was recorded.

The text of the graph comes with the artifact. A copy that torch kept is a `clone` of an input that
an op is given, and that is copied into the same input at the end. Copies that the program asks for
look like it where somebody reads the input beside: those are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from msgspec import Struct

from compdbg.events import Where

_PLACE = re.compile(r"^\s*# File: (?P<file>.*?):(?P<line>\d+) in (?P<function>\S+?),")
_CALL = re.compile(
    r'^\s*(?P<name>\w+)(?:: "(?P<type>[^"]*)")? = torch\.ops\.(?P<op>[\w.]+)\((?P<args>.*?)\)(?:;|$)'
)
_TYPE = re.compile(r"^(?P<dtype>\w+)\[(?P<shape>[\d, ]*)\]")
_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "b8": 1,
          "c64": 8, "c128": 16}  # fmt: skip
_VIEWS = ("as_strided", "view", "reshape", "select", "slice", "permute", "transpose", "squeeze", "unsqueeze",
          "expand", "t", "alias")  # fmt: skip
REASON = "it is a view of a larger memory, or something else in the graph needs the old value"


class CachedCopy(Struct, frozen=True, kw_only=True):
    """One copy of the input `base`, made for `op`."""

    op: str
    base: str
    argument: str
    bytes: int
    where: Where | None


class _Call(Struct, frozen=True):
    name: str
    type: str
    op: str
    arguments: list[str]
    where: Where | None

    @property
    def kind(self) -> str:
        """`clone` of `aten.clone.default`; the whole name of a custom op."""
        parts = self.op.split(".")
        return parts[1] if parts[0] == "aten" else self.op


def copies_in(text: str) -> Iterator[CachedCopy]:
    calls = list(_calls(text))
    root: dict[str, str] = {}
    for call in calls:
        if call.kind in _VIEWS and call.arguments:
            root[call.name] = root.get(call.arguments[0], call.arguments[0])
    clones = {c.name: (root.get(c.arguments[0], c.arguments[0]), c) for c in calls if c.kind == "clone"}
    back = {
        (root.get(c.arguments[0], c.arguments[0]), root.get(c.arguments[1], c.arguments[1]))
        for c in calls
        if c.kind == "copy_"
    }
    readers = [c for c in calls if c.kind not in (*_VIEWS, "clone", "copy_")]
    for name, (base, clone) in clones.items():
        if (base, name) not in back or any(base in _roots(c, root) for c in readers):
            continue
        writer = next((c for c in readers if name in _roots(c, root)), None)
        if writer is not None:
            op = ".".join(writer.op.split(".")[:2])
            argument = f"argument {_roots(writer, root).index(name) + 1}"
            yield CachedCopy(
                op=op, base=base, argument=argument, bytes=_bytes(clone.type), where=writer.where
            )


def _calls(text: str) -> Iterator[_Call]:
    where: Where | None = None
    for line in text.splitlines():
        place = _PLACE.match(line)
        if place is not None:
            where = Where(place["file"], int(place["line"]), place["function"])
            continue
        call = _CALL.match(line)
        if call is not None:
            arguments = re.findall(r"[A-Za-z_]\w*", call["args"])
            yield _Call(call["name"], call["type"] or "", call["op"], arguments, where)


def _roots(call: _Call, root: dict[str, str]) -> list[str]:
    return [root.get(argument, argument) for argument in call.arguments]


def _bytes(described: str) -> int:
    """Of `f32[8000][1]cpu`; 0 where a size is symbolic."""
    found = _TYPE.match(described)
    if found is None or found["dtype"] not in _BYTES:
        return 0
    sizes = [int(size) for size in found["shape"].replace(" ", "").split(",") if size]
    return math.prod(sizes) * _BYTES[found["dtype"]]
