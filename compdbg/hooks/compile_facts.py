"""What one compile depends on beyond its guards: noted while Dynamo traces, asked when a guard is violated.

Facts hold names, places and flags, never a tensor or a module. They belong to the compile under
way on this thread, and go to the audit of the entry that it makes.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Literal, NamedTuple

from compdbg.events import Where
from compdbg.hooks import current, userline

Style = Literal["ops", "generated", "unknown"]
"""`ops`: the backend calls torch's ops one by one, as eager does; `generated`: it compiled them away."""


class Branch(NamedTuple):
    """A decision over sizes that came out otherwise for the sizes `flips_at`."""

    sources: tuple[str, ...]
    expr: str
    flips_at: tuple[int, ...]
    where: Where | None
    by_op: bool
    """Not an `if` of the user's, but an op whose result has another shape at those sizes."""
    result: bool = False

    def is_like(self, other: Branch) -> bool:
        """The same decision, seen on another way."""
        return (self.sources, self.flips_at, self.where) == (other.sources, other.flips_at, other.where)


class Place(NamedTuple):
    """Where a guard over sizes came from."""

    where: Where | None
    layer: str
    by_user: bool
    """Decided by an `if` in the traced code, not inside an op."""


class Facts:
    """What is known of one compile."""

    def __init__(self, compile_id: str) -> None:
        self.compile_id = compile_id
        self.style: Style = "unknown"
        self.training = False
        self.mutated: set[str] = set()
        """Sources of the inputs that the graph writes to."""
        self.makes_tensors = False
        """An op makes a tensor from nothing, on the default device."""
        self.default_dtype = False
        """An op's dtype comes from the default dtype."""
        self.autocast = False
        """Autocast would change the dtype of an op."""
        self.reads: dict[tuple[str, str], Where | None] = {}
        """(source of a tensor or "", property) -> the first line that read it into a Python value."""
        self.branches: list[Branch] = []
        self.places: dict[str, Place] = {}
        """By torch's short text of where a guard over sizes came from."""
        self.shape_guards: dict[str, Place] = {}
        """By the expression that torch checks."""
        self.in_backend = False
        self.said: set[Any] = set()

    def read_at(self, source: str, *properties: str) -> tuple[bool, Where | None]:
        """Whether Python read one of these properties of a tensor (or of one computed), and where."""
        for prop in properties:
            if (source, prop) in self.reads:
                return True, self.reads[source, prop]
        for prop in properties:
            if ("", prop) in self.reads:
                return True, None
        return False, None

    def flipped(self, source: str, value: int) -> Branch | None:
        """The decision that is wrong for a size: the user's own first."""
        found = [b for b in self.branches if source in b.sources and value in b.flips_at]
        if self.style == "ops":
            found = [b for b in found if not b.by_op]
        return min(found, key=lambda b: b.by_op, default=None)


_here = threading.local()


def here() -> Facts | None:
    """The facts of the compile under way on this thread; None outside one."""
    compile_id = current.compile_id()
    if compile_id is None:
        return None
    facts: Facts | None = getattr(_here, "facts", None)
    if facts is None or facts.compile_id != compile_id:
        facts = _here.facts = Facts(compile_id)
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


def source_name(source: Any) -> str:
    """`L['x'].size()[0]`: a property since 2.10, a method before."""
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)
