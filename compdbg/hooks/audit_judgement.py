"""What a judge says of one aspect of a guard that is false, and what it may ask."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from compdbg.events import Where
from compdbg.hooks.audit_watches import Scope, Watch
from compdbg.hooks.compile_facts import Facts

Group = tuple[Hashable, ...]
"""What guards may have in common: `("dtype", "torch.float32", "torch.float16")`, `("owner", 1234, ".k")`."""


class Judgement(NamedTuple):
    """One aspect of a violated guard: `shape` of a tensor, `num_threads` of the global state."""

    kind: str
    """`shape`, `constant`, `type`, `identity`, `global-state` or `other`."""
    effect: str
    """`differs`, `same` or `unknown`."""
    why: str
    name: str
    """What it is about, as the user calls it."""
    wanted: str
    seen: str
    where: Where | None
    facet: str = ""
    groups: tuple[Group, ...] = ()
    """Guards that are false on the same call and share one of these have one cause."""


class Expected(NamedTuple):
    """What a tensor guard was made from."""

    pytype: str
    dtype: str
    device: str
    requires_grad: bool
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    keys: str


class Case(NamedTuple):
    """What a judge is given."""

    watch: Watch
    scope: Scope
    facts: Facts
    expected: dict[str, Expected]
    """By the source of a tensor."""

    @property
    def where(self) -> Where | None:
        return self.watch.record.where if self.watch.record is not None else None

    @property
    def wanted(self) -> Any:
        """The value at trace time, where it was recorded."""
        return self.watch.record.value if self.watch.record is not None else None


Judge = Callable[[Case], list[Judgement]]
