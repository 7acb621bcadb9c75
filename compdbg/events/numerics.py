"""Results of compiled graphs beside those of the same graph in eager, under `--compare eager`."""

from __future__ import annotations

from typing import Literal

from compdbg.events.base import Event, Where

Check = Literal["equal", "differs", "not-checked"]


class Compared(Event, frozen=True):
    """One call of one compiled graph, beside the graph run by eager on the same inputs.

    `output` is the first result that differs; `max_abs` and `max_rel` (of its largest value) are None
    where one side has NaN and the other a number, or where the result has another shape or dtype, which
    `form` says. `reason` says why a call was not checked.
    """

    graph: str
    call: int
    check: Check
    inputs: str = ""
    output: int | None = None
    dtype: str = ""
    max_abs: float | None = None
    max_rel: float | None = None
    form: str = ""
    """`float32[3, 4] in place of float32[3, 8]`."""
    reason: str = ""
    frame: str = ""
    where: Where | None = None
    backend: str = ""
    compile_id: str | None = None
    custom_ops: list[str] = []
    """The operators in the graph that are none of torch's."""
    size: int | None = None
    """Rows of the batch, of a model of the built-in compiler; the rest is of such models too."""
    padded_to: int | None = None
    mode: str = ""
    """How the call was served: the mode of the capture that was replayed; "" without one."""
    piece: str = ""
    """The first piece that gives other results than in eager by itself."""
    apart_equal: bool = False
    """Each piece by itself gives what it does in eager."""
