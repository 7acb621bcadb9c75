"""What every event is: a frozen structure with a kind, and the header that places it.

One event is one line of JSON: the header's keys and the event's own, in one object. A reader
ignores keys that it does not know and keeps lines of unknown kinds, so that a newer minor
version of the schema can be read by an older compdbg.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

SCHEMA = (1, 0)
"""Major, minor. A newer major is refused; of a newer minor, unknown kinds are counted."""


def kind_of(class_name: str) -> str:
    """`GuardViolation` -> `guard-violation`: the event's kind on disk is its class in kebab case."""
    return "".join("-" + c.lower() if c.isupper() else c for c in class_name).lstrip("-")


class Event(Struct, frozen=True, kw_only=True, tag_field="kind", tag=kind_of, omit_defaults=True):
    """Base of all events. Subclasses say what happened; the header says when and where."""

    @property
    def kind(self) -> str:
        tag = self.__struct_config__.tag
        assert isinstance(tag, str)
        return tag


class Header(Struct, frozen=True, gc=False):
    """Where an event belongs. Filled in by the writer, never by who emits.

    `time` is seconds since the epoch; `seq` counts a process's events from 1; `parent` is the
    `seq` of the span or compile of the same process in which the event happened.
    """

    process: str
    seq: int
    time: float
    run: str = ""
    rank: int | None = None
    parent: int | None = None

    @property
    def id(self) -> str:
        """The event's id, unique in its run: what findings name as evidence."""
        return f"{self.process}:{self.seq}"


class Where(Struct, frozen=True, gc=False):
    """A place in the source: the user's line where one is known."""

    file: str
    line: int
    function: str = ""


class UnknownEvent(Struct, frozen=True):
    """A line whose kind this version does not know; kept, and counted in `health`."""

    kind: str
    fields: dict[str, Any]
