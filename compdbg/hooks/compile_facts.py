"""What one compile depends on beyond its guards: noted while Dynamo traces, asked when a guard is violated.

Facts hold names, places and flags, never a tensor or a module. They belong to the compile under
way on this thread, and go to the audit of the entry that it makes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from compdbg.events import Where
from compdbg.hooks import current, userline
from compdbg.hooks.op_shapes import Op, OpShapes

_MOST_TRIED = 64
"""Sizes at which a graph's ops are tried again; each takes some milliseconds in a large graph."""

Style = Literal["ops", "generated", "unknown"]
"""`ops`: the backend calls torch's ops one by one, as eager does; `generated`: it compiled them away."""


class Branch(NamedTuple):
    """A decision over sizes that comes out otherwise for the sizes `flips_at`."""

    sources: tuple[str, ...]
    expr: str
    result: bool
    flips_at: tuple[int, ...]
    where: Where | None
    in_library: bool
    """Decided in the code of a library that the user's line calls."""

    def is_like(self, other: Branch) -> bool:
        """The same decision, seen on another way."""
        return (self.sources, self.flips_at, self.where) == (other.sources, other.flips_at, other.where)


class Place(NamedTuple):
    """Where a guard over sizes came from."""

    where: Where | None
    layer: str
    by_user: bool
    """Decided by an `if` in the traced code, not inside an op."""
    asked_by: str = ""
    """For Inductor: its function that wanted to know."""


class Facts:
    """What is known of one compile."""

    def __init__(self, compile_id: str, token: Any = None) -> None:
        self.compile_id = compile_id
        self.token = token
        """torch's own id, which no other compile has, or the text where torch has none."""
        self.style: Style = "unknown"
        self.training = False
        self.mutated: set[str] = set()
        """Sources of the inputs that the graph writes to."""
        self.makes_tensors = False
        """An op makes a tensor from nothing, on the default device."""
        self.default_dtype = False
        """An op's dtype comes from the default dtype."""
        self.whole_numbers = False
        """A tensor of ints or bools is computed with."""
        self.autocast = False
        """Autocast would change the dtype of an op."""
        self.reads: dict[tuple[str, str], Where | None] = {}
        """(source of a tensor or "", property) -> the first line that read it into a Python value."""
        self.branches: list[Branch] = []
        self.shapes: OpShapes | None = None
        self._tried: dict[tuple[int, ...], Op | None] = {}
        self.places: dict[str, Place] = {}
        """By torch's short text of where a guard over sizes came from."""
        self.shape_guards: dict[str, Place] = {}
        """By the expression that torch checks."""
        self.in_backend = False
        self.said: set[Any] = set()

    def read_at(self, source: str, *properties: str) -> tuple[bool, Where | None]:
        """Whether Python read one of these properties of a tensor, or else of one computed, and where."""
        for name in (source, ""):
            for prop in properties:
                if (name, prop) in self.reads:
                    return True, self.reads[name, prop]
        return False, None

    def forget_sizes(self) -> None:
        """For an entry whose guards over sizes are checked on every call, whatever else is skipped."""
        self.shapes = None
        self.places.clear()
        self.said.clear()

    def flipped(self, source: str, value: int) -> Branch | None:
        """The decision in the traced code that is wrong for a size."""
        return next((b for b in self.branches if source in b.sources and value in b.flips_at), None)

    def wrong_op(self, value_of: Callable[[str], Any]) -> Op | None:
        """The op whose result has another shape at the sizes of a call; `value_of` reads a source."""
        if self.shapes is None:
            return None
        sizes = {symbol: value_of(source) for symbol, source in self.shapes.sources.items()}
        if not all(type(size) is int for size in sizes.values()):
            return None
        key = tuple(sizes.values())
        if key not in self._tried:
            if len(self._tried) >= _MOST_TRIED:
                return next((op for op in self._tried.values() if op is not None), None)
            self._tried[key] = self.shapes.wrong_at(sizes)
        return self._tried[key]


_here = threading.local()


def here() -> Facts | None:
    """The facts of the compile under way on this thread; None outside one.

    Asked for on every size that is looked at: it compares torch's own id object, not its text.
    """
    context = sys.modules["torch._guards"].CompileContext.try_get()
    facts: Facts | None = getattr(_here, "facts", None)
    token = getattr(context, "compile_id", None)
    if token is not None:
        if facts is None or facts.token is not token:
            facts = _here.facts = Facts(current.plain_id(token), token)
        return facts
    adopted = current.compile_id()
    if adopted is None:
        return None
    if facts is None or facts.compile_id != adopted:  # a backend may leave torch's context for a while
        facts = _here.facts = Facts(adopted, adopted)
    return facts


def take(compile_id: str | None) -> Facts:
    """The facts of a compile that has its guards now; they are forgotten here."""
    facts: Facts | None = getattr(_here, "facts", None)
    _here.facts = None
    if facts is not None and compile_id in (facts.compile_id, None):
        return facts
    return Facts(compile_id or "")


def traced_line() -> Where | None:
    """The user's line that Dynamo is tracing."""
    return userline.of_frames(sys.modules["torch._guards"].TracingContext.extract_stack())


def traced_instruction() -> tuple[Any, ...] | None:
    """File, line and function of the very code that Dynamo is tracing, be it a library's."""
    context = sys.modules["torch._guards"].TracingContext.try_get()
    place = getattr(context, "loc_in_frame", None)
    return None if place is None else tuple(place)
