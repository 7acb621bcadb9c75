"""Custom operators under `--check-ops`: what their schema and fake say, and what the op does."""

from __future__ import annotations

from typing import Literal

from compdbg.events.base import Event, Where

OpFault = Literal[
    "undeclared-write", "undeclared-alias", "outputs", "dtype", "shape", "strides", "device", "aliasing"
]


class OpWrong(Event, frozen=True):
    """A custom op does other than it says, for the first time at its call `call`.

    `undeclared-write` and `undeclared-alias` are of the schema: `subject` is the argument. All other
    faults are of the fake: `subject` is the output (or the outputs), `declared` what the fake gives
    and `seen` what the op gave.
    """

    op: str
    fault: OpFault
    subject: str
    declared: str
    seen: str
    call: int
    schema: str = ""
    inputs: str = ""
    """The tensors of that call: `x float32[4, 8]`."""
    kernel: Where | None = None
    fake: Where | None = None
    where: Where | None = None
    """The user's line whose call this was."""
    compile_id: str | None = None


class OpsChecked(Event, frozen=True):
    """How often each op was called, and on how many of those calls it was checked."""

    calls: dict[str, int]
    checked: dict[str, int]
    faked: dict[str, int]
